"""What rules that change the programs of a launch share: which one it is, and how many stay on the device."""

from __future__ import annotations

from typing import TypeVar, cast

import libcst as cst
import libcst.matchers as m

from ..change import Change
from ..source import expression, names
from .kernel import Launch, TritonKernel

S = TypeVar("S", bound=cst.CSTNode)
_TL = m.Name("tl")
PROGRAM = m.Call(func=m.Attribute(_TL, m.Name("program_id")), args=[m.Arg(m.Integer("0"))])
_NAME = "multiprocessors"
GROUPED = ("pid_0_grouped", "pid_1_grouped")
"""Names of a program's numbers on both axes, in the order that the rule grouped-order writes."""
_SOURCE = """
def multiprocessors(device: torch.device) -> int:
    if device.type != "cuda":
        return 2  # the interpreter's programs run one after the other
    return torch.cuda.get_device_properties(device).multi_processor_count
"""


def knows_program_zero_alone(launch: Launch) -> bool:
    """Return whether the grid has one axis, which the function knows by `tl.program_id(0)` alone, and uses it."""
    calls = launch.function.calls("program_id", "num_programs")
    one_axis = launch.grid is not None and len(launch.grid) == 1
    return one_axis and bool(calls) and all(m.matches(call, PROGRAM) for call in calls)


def of_program(node: S, program: str) -> S:
    """Return code with another expression for `tl.program_id(0)`."""

    class Replace(cst.CSTTransformer):
        def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
            return expression(program) if m.matches(original_node, PROGRAM) else updated_node

    return cast(S, node.visit(Replace()))


def tensor_of(launch: Launch) -> str | None:
    """Return the name on the host of a tensor that the function loads or stores, which is on the device."""
    calls = launch.function.calls("load", "store")
    pointers = {name for call in calls for name in names(call.args[0].value)}
    for parameter, value in launch.arguments.items():
        if isinstance(value, cst.Name) and parameter in pointers:
            return value.value
    return None


def multiprocessors_of(kernel: TritonKernel, change: Change) -> str:
    """Return the name of a function of the file that counts a device's multiprocessors; it is added where missing."""
    if any(
        isinstance(statement, cst.FunctionDef) and statement.name.value == _NAME for statement in kernel.module.body
    ):
        return _NAME
    name = change.fresh(_NAME)
    change.helper(_SOURCE.replace(_NAME, name))
    return name
