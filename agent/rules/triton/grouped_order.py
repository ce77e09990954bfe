"""Walk the tiles of a product in groups of rows, whose operands stay in the L2 cache."""

from __future__ import annotations

import re

import libcst as cst

from ....core import Parameter
from ...analysis.source import code
from ...analysis.template import matches
from ...analysis.tree import calls_in
from ...analysis.triton import GROUPED, Launch, TritonKernel, dots_of
from ..rule import Change, Rewritten, require, rule

GROUPS = (1, 2, 4, 8, 16)
START = 8
_GROUP = re.compile(r"GROUP(_SIZE)?_?M?")


@rule("memory", "products", TritonKernel.read).because(
    "programs that run together then read the same rows and columns, which stay in the L2 cache"
)
def grouped_order(kernel: TritonKernel, change: Change) -> Rewritten:
    """Number the programs of a product down GROUP rows of tiles before they go to the next column.

    Only the order of programs changes, and programs are independent: functions with atomics are left alone. Needs a
    function that is launched at one place, on a grid of two axes that are `triton.cdiv` of a size. Where a function of
    one axis has such an order already (GROUP_M, as torch's templates have), its literal becomes a parameter.
    """
    change.require_free("linear_pid")
    constant = change.fresh("GROUP")
    starts: set[int] = set()

    def group(launch: Launch, change: Change) -> None:
        require(dots_of(launch.function), "no product")
        given = [launch.arguments.get(name) for name in sorted(launch.function.constexprs) if _GROUP.fullmatch(name)]
        number = next((value for value in given if isinstance(value, cst.Integer)), None)
        start = START if number is None else int(number.value)
        require(starts <= {start}, "another product has a group of another size")
        if number is not None:
            change.put(number, constant)
        else:
            require(_is_ungrouped(launch), "the grid has no two axes of tiles in their plain order")
            _group(launch, constant, change)
        starts.add(start)

    change.each(kernel.launched_once(), group)
    (start,) = starts
    change.add(Parameter(constant, sorted({*GROUPS, start}), start))
    return change.rewritten("walked the tiles in groups of rows")


def _is_ungrouped(launch: Launch) -> bool:
    """Return whether the launch has two axes of tiles, each of which the function takes as it is."""
    axes = (launch.grid or ())[:2]
    plain = len(axes) == 2 and all(matches(axis, "triton.cdiv(q_size, q_tile)") for axis in axes)
    if not plain or {*launch.axes[2:]} - {"1"}:
        return False
    numbers = [code(call.args[0].value) for call in launch.function.calls("program_id") if len(call.args) == 1]
    return set(numbers) == {"0", "1"} and not calls_in(launch.function.node, "tl.atomic_*", "tl.num_programs")


def _group(launch: Launch, constant: str, change: Change) -> None:
    function = launch.function
    for call in function.calls("program_id"):
        change.put(call, GROUPED[int(code(call.args[0].value))])
    text = f"""\
# Programs that run together take {constant} rows of tiles, column by column.
linear_pid = tl.program_id(0) + tl.program_id(1) * tl.num_programs(0)
{", ".join(GROUPED)} = tl.swizzle2d(
    linear_pid // tl.num_programs(1),
    linear_pid % tl.num_programs(1),
    tl.num_programs(0),
    tl.num_programs(1),
    {constant},
)
"""
    change.before(function.node.body.body[0], text)
    change.add_parameters(function.node, constants=[constant])
    change.add_arguments(launch.node, {constant: constant})
