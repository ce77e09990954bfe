"""Values of the tile sizes of Inductor's kernels for a search, besides those that Inductor tries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ...core.devices.nvidia import HOPPER
from ...core.expressions import Expression

WARPS, STAGES = "num_warps", "num_stages"
_MORE = {WARPS: (4, 8), STAGES: (2, 3, 4)}
"""Values to try for a template, in addition to its own."""
_WIDEST = 256
_MOST_WARPS = 32
_ACCUMULATORS = 128
"""Registers of a thread that may hold them; it has 255."""
_ELEMENTS = 64
"""Elements of a tile per thread."""
_SMALL = 8
_SHARED_BYTES = HOPPER.block_shared_bytes
"""Shared memory per block of the largest multiprocessor today."""


def template_choices(tiles: Mapping[str, int], values: Mapping[str, int], grid_follows: bool) -> dict[str, list[int]]:
    """Return the choices of a product's template. Tiles have further choices if the launch's grid can follow them."""
    found = {key: _near(value) if grid_follows and key != "GROUP_M" else [value] for key, value in tiles.items()}
    return found | {name: sorted({*more, values[name]}) for name, more in _MORE.items()}


def _near(value: int) -> list[int]:
    """Return a tile size and its neighbours; a product's is at least 16."""
    return sorted({max(16, value // 2), value, min(_WIDEST, value * 2)}) if value >= 16 else [value]


def loop_choices(configs: Sequence[Mapping[str, int]]) -> dict[str, list[int]]:
    """Return the choices of an element-wise kernel or a reduction: the powers of two about Inductor's."""
    found = {key: sorted({config[key] for config in configs}) for key in configs[0]}
    if len(configs) == 1:  # one element, or a choice that Inductor is sure of
        return found
    return {key: values if key == STAGES else _filled(values, key) for key, values in found.items()}


def _filled(values: Sequence[int], key: str) -> list[int]:
    # Inductor already tries reductions in steps of one or two, and single rows, if they make sense.
    least = values[0] // 2 if key == WARPS or values[0] > _SMALL else values[0]
    most = min(_MOST_WARPS, values[-1] * 2) if key == WARPS else values[-1] * 2
    return sorted({*values, *(1 << power for power in range(most.bit_length()) if least <= 1 << power <= most)})


def limits(configs: Sequence[Mapping[str, int]], operand_bytes: int) -> Iterator[str]:
    """Yield the constraints under which tiles fit a GPU and keep its threads busy, if Inductor's own tiles do."""
    blocks = [name for name in configs[0] if name.endswith("BLOCK")]
    if configs[0].keys() >= {"BLOCK_M", "BLOCK_N", "BLOCK_K", WARPS, STAGES}:
        texts = [
            f"BLOCK_M * BLOCK_N <= {WARPS} * 32 * {_ACCUMULATORS}",
            f"(BLOCK_M + BLOCK_N) * BLOCK_K * {STAGES} * {operand_bytes} <= {_SHARED_BYTES}",
        ]
    elif blocks and len(configs) > 1:
        tile, most = " * ".join(blocks), 2 * max(math.prod(config[block] for block in blocks) for config in configs)
        texts = [f"{tile} <= {WARPS} * 32 * {_ELEMENTS}", f"{tile} >= {WARPS} * 32"]
        texts += [f"{tile} <= {most}"] if len(blocks) > 1 else []
    else:
        return
    yield from (text for text in texts if all(Expression(text)(config) for config in configs))
