"""Tells the compiler that a loop over a size has a first step."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from ..search import find_all
from ..source import code, expression
from ..template import match
from .function import RANGE
from .kernel import Launch
from .tensors import assigned

_SHAPE = m.Attribute(attr=m.Name("shape"))


def assumption(launch: Launch, loop: cst.For) -> str | None:
    """Return a statement for before a loop that certainly runs; None for any other loop.

    Around a loop that may have no steps there is a way on which zeros meet its results, and for some tiles (on sm_90
    those of 256 x 128 in fp16) ptxas of Triton 3.6 then lets every wgmma wait for the one before.

    A loop runs that stands in the function's own body and counts from zero, in steps of a constant, up to a parameter
    that is a size of a tensor, or up to as many steps as cover it: no problem has tensors without elements.
    """
    function, call = launch.function, loop.iter
    if not any(statement is loop for statement in function.node.body.body) or not m.matches(call, m.Call(func=RANGE)):
        return None
    bounds = [arg.value for arg in cst.ensure_type(call, cst.Call).args if arg.keyword is None]
    start, stop, step = [cst.Integer("0"), *bounds, cst.Integer("1")] if len(bounds) == 1 else [*bounds, None, None][:3]
    if start is None or stop is None or code(start) != "0" or not _is_positive(launch, step):
        return None
    if isinstance(stop, cst.Name):
        return f"tl.assume({stop.value} > 0)\n" if _is_size(launch, stop) else None
    found = match("tl.cdiv(q_size, q_tile)", stop)
    if found is None:
        return None
    size, tile = found["size"], found["tile"]
    if not _is_size(launch, expression(size)) or not _is_positive(launch, expression(tile)):
        return None
    # LLVM finds the number of steps above zero where the size and a tile together do not wrap around.
    return f"tl.assume({size} + {tile} > {tile})\n"


def _is_positive(launch: Launch, step: cst.BaseExpression | None) -> bool:
    """Return whether a step is the size of a tile or a number above zero; one that is left out is 1."""
    if step is None or isinstance(step, cst.Integer):
        return step is None or code(step) != "0"
    return isinstance(step, cst.Name) and step.value in launch.function.constexprs


def _is_size(launch: Launch, stop: cst.BaseExpression) -> bool:
    """Return whether a parameter that nothing changes gets a size of a tensor."""
    function = launch.function
    if not isinstance(stop, cst.Name) or stop.value in {*function.assignments, *function.updates}:
        return False
    value = launch.arguments.get(stop.value)
    return value is not None and _is_size_of_tensor(launch.host, value)


def _is_size_of_tensor(host: cst.FunctionDef, value: cst.BaseExpression, seen: frozenset[str] = frozenset()) -> bool:
    if m.matches(value, m.Subscript(value=_SHAPE, slice=[m.SubscriptElement(m.Index())])):
        return True
    if not isinstance(value, cst.Name) or value.value in seen:
        return False
    among = m.AssignTarget(m.Tuple(elements=[m.ZeroOrMore(), m.Element(m.Name(value.value)), m.ZeroOrMore()]))
    unpacked = find_all(host, m.Assign(targets=[among], value=_SHAPE))
    given = assigned(host, value.value)
    if len(given) != 1 or find_all(host, m.AugAssign(target=m.Name(value.value))):
        return False
    return bool(unpacked) or _is_size_of_tensor(host, given[0], seen | {value.value})
