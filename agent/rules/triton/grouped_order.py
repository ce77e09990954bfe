"""Walk the tiles of a product in groups of rows, whose operands stay in the L2 cache."""

from __future__ import annotations

import re
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ....core import Parameter, PythonKernel
from ...analysis.edit import Edit, before, declaring, edited, put, with_arguments, with_parameters
from ...analysis.source import add_constant, code, fresh
from ...analysis.triton.dots import dots_of
from ...analysis.triton.kernel import Launch, TritonFile
from ...analysis.triton.programs import GROUPED
from ..rule import Machine, Rewritten, with_source

GROUPS = (1, 2, 4, 8, 16)
START = 8
_CDIV = m.Call(func=m.Attribute(m.Name("triton"), m.Name("cdiv")))
_GROUP = re.compile(r"GROUP(_SIZE)?_?M?")


@dataclass(frozen=True)
class GroupedOrder:
    """Number the programs of a product down GROUP rows of tiles before they go to the next column.

    Only the order of programs changes, and programs are independent: functions with atomics are left alone. Needs a
    function that is launched at one place, on a grid of two axes that are `triton.cdiv` of a size. Where a function of
    one axis has such an order already (GROUP_M, as torch's templates have), its literal becomes a parameter.
    """

    name = "grouped-order"
    category = "memory"
    work = "products"
    why = "programs that run together then read the same rows and columns, which stay in the L2 cache"

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten | None:
        """Return the kernel with a grouped order, or None where no product has such a grid."""
        file = TritonFile.read(kernel)
        if file is None or "linear_pid" in file.taken:
            return None
        launches = [one for one in file.launched_once() if dots_of(one.function)]
        constant = fresh("GROUP", file.taken)
        edits: dict[cst.CSTNode, Edit] = {}
        start = None
        for launch in launches:
            number = _literal_group(launch)
            if number is not None and start in (None, number[1]):
                edits[number[0]], start = put(constant), number[1]
            elif start in (None, START) and _ungrouped(launch):
                _group(launch, constant, edits)
                start = START
        if start is None:
            return None
        parameter = Parameter(constant, sorted({*GROUPS, start}), start)
        module = add_constant(edited(file.module, edits), constant, start)
        return Rewritten(
            with_source(kernel, declaring(kernel, module, [parameter])),
            "walked the tiles in groups of rows",
            (parameter,),
        )


def _literal_group(launch: Launch) -> tuple[cst.CSTNode, int] | None:
    """Return the number that the launch gives for the rows of a group."""
    for name in sorted(launch.function.constexprs):
        value = launch.arguments.get(name)
        if _GROUP.fullmatch(name) and isinstance(value, cst.Integer):
            return value, int(value.value)
    return None


def _ungrouped(launch: Launch) -> bool:
    """Return whether the launch has two axes of tiles, each of which the function takes as it is."""
    axes = [axis for axis in launch.grid or () if code(axis) != "1"]
    if len(axes) != 2 or list(axes) != list(launch.grid or ())[:2] or not all(m.matches(one, _CDIV) for one in axes):
        return False
    text = code(launch.function.node)
    numbers = [code(call.args[0].value) for call in launch.function.calls("program_id") if len(call.args) == 1]
    return set(numbers) == {"0", "1"} and "atomic" not in text and "num_programs" not in text


def _group(launch: Launch, constant: str, edits: dict[cst.CSTNode, Edit]) -> None:
    """Add the edits of one launch and of its function."""
    function = launch.function
    for call in function.calls("program_id"):
        edits[call] = put(GROUPED[int(code(call.args[0].value))])
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
    edits[function.node.body.body[0]] = before(text)
    edits[function.node] = with_parameters([constant])
    edits[launch.node] = with_arguments({constant: constant})
