"""Tiles as large as the device allows, beyond those that a file declares."""

from __future__ import annotations

from ....core import Parameter, Value
from ....core.expressions import Expression
from ....core.space_inference import parameter_values
from ...analysis.change import NO_LAUNCH, with_declared
from ...analysis.triton import SHARED_KIB, Tile, TritonKernel
from ..rule import Change, Rewritten, fitting, require, rule

LEAST = 16
"""Minimum side of a tile that `tl.dot` accepts."""
SIDES = (64, 128, 256)
STEPS = (32, 64, 128)
WARPS = (4, 8)
STAGES = (2, 3, 4, 5)
START = (128, 128, 32, 8, 3)
"""Where a search of products on tensor cores begins."""


@rule("compute", "products", TritonKernel.read).because(
    "a larger tile computes more per byte that it loads, and tensor cores need 64 rows and deep pipelines"
)
def wide_tiles(kernel: TritonKernel, change: Change) -> Rewritten:
    """Extend the declared values of a product's tile, warps and stages up to what sm_90 holds.

    Only values are added: none that the file declares goes. A constraint that only limits accumulators per thread gives
    way to the model's limit (128 on tensor cores, 64 on the vector units); all others stay, and one on shared memory
    is added where the file has none. Needs a launch whose tile, warps and stages are five constants of the file.
    """
    source = change.kernel
    tiles = fitting(kernel.launched_once(), lambda launch: Tile.of(launch, source), NO_LAUNCH)
    require(len({name for tile in tiles for name in tile.names}) == 5 * len(tiles), "two products share a constant")
    values, constraints = dict(parameter_values(source)), list(source.declared_constraints)
    own: dict[str, Parameter] = {}
    start: dict[str, Value] = {}
    for tile in tiles:
        for name, more in zip(tile.names, (SIDES, SIDES, STEPS, WARPS, STAGES), strict=True):
            # What a file declares stays; what only the constants' names suggest has to compile.
            least = LEAST if name in tile.names[:3] and name not in source.declared_values else 1
            numbers = [item for item in values.get(name, ()) if isinstance(item, int) and item >= least]
            values[name] = sorted({*numbers, int(source.config[name]), *more})
        limit = tile.accumulator_limit(source.config)
        replaced = [limit if tile.limits_accumulators(constraint) else constraint for constraint in constraints]
        constraints = list(dict.fromkeys([*replaced, *([] if limit in replaced else [limit])]))
        if not any(Expression(constraint).names == {tile.m, tile.n, tile.k, tile.stages} for constraint in constraints):
            # The tiles of all stages, of fp32, fit the shared memory of a block.
            constraints.append(f"({tile.m} + {tile.n}) * {tile.k} * 4 * {tile.stages} <= {SHARED_KIB} * 1024")
        if not tile.precise and (tile.choice is None or source.config[tile.choice] != "ieee"):
            start |= dict(zip(tile.names, START, strict=True))
        if tile.choice:
            values.setdefault(tile.choice, [source.config[tile.choice]])
        # Products of one file share the parameter of their precision.
        own |= {item: Parameter(item, values[item]) for item in (*tile.names, tile.choice) if item}
    declared = (source.declared_values, list(source.declared_constraints))
    require((values, constraints) != declared, "the declared space is as wide already")
    over = [constraint for constraint in constraints if Expression(constraint).names <= own.keys()]
    if not all(Expression(item)({**source.config, **start}) for item in over):
        start = {}
    change.constraints += over
    begin = {**source.config, **start}
    change.parameters += [Parameter(name, parameter.values, begin[name]) for name, parameter in own.items()]
    change.bind(start)
    did = f"widened the search to tiles of {max(SIDES)} with {max(WARPS)} warps and {max(STAGES)} stages"
    return change.finished(with_declared(kernel.module, values, constraints), did)
