"""Launch grids of Inductor's templates: the code has their numbers, but not how they follow from the tile sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Part = tuple[tuple[str, ...], str]
"""A product of sizes, and the tile size that divides it; one without a tile size is the product itself."""

_GRIDS: tuple[tuple[tuple[Part, ...] | None, ...], ...] = (
    (((("M",), "BLOCK_M"), (("N",), "BLOCK_N")), None, None),
    (((("BATCH", "OUT_H", "OUT_W"), "BLOCK_M"),), ((("OUT_C",), "BLOCK_N"),), ((("GROUPS",), ""),)),
    (((("BATCH", "OUT_D", "OUT_H", "OUT_W"), "BLOCK_M"),), ((("OUT_C",), "BLOCK_N"),), ((("GROUPS",), ""),)),
)
"""Each dimension is a product of parts, or (None) any number, such as that of a batch's products."""


def template_grid(values: Mapping[str, int], written: Mapping[str, object], recorded: Sequence[int]) -> list[str]:
    """Return the grid as Python: the one of these that gives the recorded numbers, else the numbers.

    `written` holds the names of the tile sizes' constants, beside the sizes. Inductor starts programs for all channels
    in each group, of which those beyond the group's own store nothing: these are left out.
    """
    own = dict(written or values)
    if values.get("GROUPS", 1) > 1:
        own["OUT_C"] = values["OUT_C"] // values["GROUPS"]
    for grid in _GRIDS:
        parts = [part for dimension in grid for part in dimension or ()]
        names = {name for sizes, tile in parts for name in (*sizes, *filter(None, [tile]))}
        pairs = list(zip(grid, recorded, strict=True))
        if names <= values.keys() and all(tiles is None or _value(tiles, values) == number for tiles, number in pairs):
            return [str(number) if tiles is None else _text(tiles, own) for tiles, number in pairs]
    return [str(number) for number in recorded]


def _value(dimension: Sequence[Part], values: Mapping[str, int]) -> int:
    found = 1
    for sizes, tile in dimension:
        size = 1
        for name in sizes:
            size *= values[name]
        found *= -(-size // values[tile]) if tile else size
    return found


def _text(dimension: Sequence[Part], written: Mapping[str, object]) -> str:
    parts = []
    for sizes, tile in dimension:
        size = " * ".join(str(written[name]) for name in sizes)
        parts.append(f"triton.cdiv({size}, {written[tile]})" if tile else size)
    return " * ".join(parts) or "1"
