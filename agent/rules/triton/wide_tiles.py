"""Tiles as large as the device allows, beyond those that a file declares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....core import Parameter, PythonKernel, Value
from ....core.expressions import Expression
from ....core.space_inference import parameter_values
from ...analysis.edit import with_declared
from ...analysis.triton.kernel import TritonFile
from ...analysis.triton.tiles import Tile
from ..rule import Machine, Rewritten, with_source

SHARED_KIB = 227
"""Of a block, on sm_90."""
LEAST = 16
"""Of a tile's side: `tl.dot` takes no smaller ones."""
SIDES = (64, 128, 256)
STEPS = (32, 64, 128)
WARPS = (4, 8)
STAGES = (2, 3, 4, 5)
START = (128, 128, 32, 8, 3)
"""Where a search of products on tensor cores begins."""


@dataclass(frozen=True)
class WideTiles:
    """Extend the declared values of a product's tile, warps and stages up to what sm_90 holds.

    Only values are added: none that the file declares goes. A constraint that only limits accumulators per thread gives
    way to the model's limit (128 on tensor cores, 64 on the vector units); all others stay, and one on shared memory
    is added where the file has none. Needs a launch whose tile, warps and stages are five constants of the file.
    """

    name = "wide-tiles"
    category = "compute"
    work = "products"
    why = "a larger tile computes more per byte that it loads, and tensor cores need 64 rows and deep pipelines"

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten | None:
        """Return the kernel with a wider space, or None where there is no tile or it is as wide already."""
        file = TritonFile.read(kernel)
        tiles = [tile for one in file.launched_once() if (tile := Tile.of(one, kernel))] if file else []
        if file is None or not tiles or len({name for tile in tiles for name in tile.names}) < 5 * len(tiles):
            return None
        values: dict[str, Sequence[Value]] = dict(parameter_values(kernel))
        constraints = list(kernel.declared_constraints)
        own: dict[str, Parameter] = {}
        start: dict[str, Value] = {}
        for tile in tiles:
            for name, more in zip(tile.names, (SIDES, SIDES, STEPS, WARPS, STAGES), strict=True):
                # What a file declares stays; what only the constants' names suggest has to compile.
                least = LEAST if name in tile.names[:3] and name not in kernel.declared_values else 1
                numbers = [one for one in values.get(name, ()) if isinstance(one, int) and one >= least]
                present = int(kernel.config[name])
                values[name] = sorted({*numbers, present, *more})
            limit = tile.accumulator_limit(kernel.config)
            replaced = [limit if tile.limits_accumulators(one) else one for one in constraints]
            constraints = list(dict.fromkeys([*replaced, *([] if limit in replaced else [limit])]))
            if not any(Expression(one).names == {tile.m, tile.n, tile.k, tile.stages} for one in constraints):
                constraints.append(tile.shared_limit(SHARED_KIB))
            if not tile.precise and (tile.choice is None or kernel.config[tile.choice] != "ieee"):
                start |= dict(zip(tile.names, START, strict=True))
            if tile.choice:
                values.setdefault(tile.choice, [kernel.config[tile.choice]])
            # Products of one file share the parameter of their precision.
            own |= {one: Parameter(one, values[one]) for one in (*tile.names, tile.choice) if one}
        if values == kernel.declared_values and constraints == list(kernel.declared_constraints):
            return None
        over = tuple(one for one in constraints if Expression(one).names <= own.keys())
        if not all(Expression(one)({**kernel.config, **start}) for one in over):
            start = {}
        parameters = [Parameter(name, one.values, start.get(name, kernel.config[name])) for name, one in own.items()]
        wider = with_source(kernel, with_declared(file.module, values, constraints))
        return Rewritten(
            wider.bind(start),
            f"widened the search to tiles of {max(SIDES)} with {max(WARPS)} warps and {max(STAGES)} stages",
            tuple(parameters),
            over,
        )
