"""What rules that change the programs of a launch share: which one it is, and how many stay on the device."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from ..search import find_all
from ..source import expression, fresh, insert_before_definitions, names
from .kernel import Launch, TritonFile

_TL = m.Name("tl")
_PROGRAM = m.Call(func=m.Attribute(_TL, m.Name("program_id")), args=[m.Arg(m.Integer("0"))])
_GRID = m.Call(func=m.Attribute(_TL, m.Name("program_id") | m.Name("num_programs")))
_POINTERS = m.Call(func=m.Attribute(_TL, m.Name("load") | m.Name("store")))
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
    calls = find_all(launch.function.node, _GRID)
    one_axis = launch.grid is not None and len(launch.grid) == 1
    return one_axis and bool(calls) and all(m.matches(one, _PROGRAM) for one in calls)


def of_program(node: cst.CSTNode, program: str) -> cst.CSTNode:
    """Return code with another expression for `tl.program_id(0)`."""

    class Replace(cst.CSTTransformer):
        def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
            return expression(program) if m.matches(original_node, _PROGRAM) else updated_node

    new = node.visit(Replace())
    assert isinstance(new, cst.CSTNode)
    return new


def tensor_of(launch: Launch) -> str | None:
    """Return the name on the host of a tensor that the function loads or stores, which is on the device."""
    calls = [cst.ensure_type(one, cst.Call) for one in find_all(launch.function.node, _POINTERS)]
    pointers = {name for call in calls for name in names(call.args[0].value)}
    for parameter, value in launch.arguments.items():
        if isinstance(value, cst.Name) and parameter in pointers:
            return value.value
    return None


def multiprocessors_of(file: TritonFile) -> tuple[str, bool]:
    """Return the name of the function that counts a device's multiprocessors, and whether the file has it."""
    has = any(isinstance(one, cst.FunctionDef) and one.name.value == _NAME for one in file.module.body)
    return (_NAME, True) if has else (fresh(_NAME, file.taken), False)


def with_multiprocessors(module: cst.Module, name: str) -> cst.Module:
    """Return the module with that function."""
    return insert_before_definitions(module, _SOURCE.replace(_NAME, name))
