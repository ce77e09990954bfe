"""Finds three products of split operands that sum into one accumulator, one after the other."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ..search import contains, find_all
from ..source import assignment, code, names
from ..template import canonical
from .dots import Dot, dots_of, operand_load
from .function import RANGE, Function, argument, further_arguments
from .sums import assigned_names, read_first


@dataclass(frozen=True)
class Parts:
    """An operand as two loads, the second of which is at a distance from the first: `p` and `p + distance`."""

    high: cst.Call
    low: cst.Call
    distance: str
    """A parameter that the function does not change."""

    @property
    def pointer(self) -> cst.BaseExpression:
        """That of the first."""
        pointer = argument(self.high, "pointer", 0)
        assert pointer is not None
        return pointer


@dataclass(frozen=True)
class Chain:
    """`acc += low * high + high * low + high * high` in a loop over one range."""

    function: Function
    loop: cst.For
    dots: tuple[Dot, Dot, Dot]
    left: Parts
    right: Parts
    advances: dict[str, cst.AugAssign]
    """Pointers that each step moves by the same amount, and the statements that do."""


def chain_of(function: Function) -> Chain | None:
    """Return the function's chain of three products; None where it has none, or its loop carries anything else."""
    dots = dots_of(function)
    if len(dots) != 3 or len({dot.accumulator for dot in dots}) != 1 or any(dot.choice for dot in dots):
        return None
    loop = dots[0].loop
    one, other, last = dots
    body = list(loop.body.body)
    places = [next((i for i, line in enumerate(body) if line is dot.statement), -1) for dot in dots]
    if any(dot.loop is not loop for dot in dots) or places != list(range(places[0], places[0] + 3)) or places[0] < 0:
        return None
    if len({(dot.precision, further_arguments(dot.node.with_changes(args=dot.node.args[2:]))) for dot in dots}) != 1:
        return None
    # The sums of the low parts come in either order, that of both high parts is the one that shares with both.
    for low, mixed, whole in ((one, other, last), (other, one, last)):
        if code(low.right) == code(whole.right) and code(mixed.left) == code(whole.left):
            left = _parts(function, loop, whole.left, low.left)
            right = _parts(function, loop, whole.right, mixed.right)
            advances = _advances(function, loop, one.accumulator)
            if left is not None and right is not None and advances is not None and _is_plain_range(loop):
                return Chain(function, loop, (low, mixed, whole), left, right, advances)
    return None


def _is_plain_range(loop: cst.For) -> bool:
    call = loop.iter
    plain = [item for item in call.args if item.keyword is None] if isinstance(call, cst.Call) else []
    return m.matches(loop, m.For(target=m.Name(), iter=m.Call(func=RANGE), orelse=None)) and 1 <= len(plain) <= 3


def _parts(function: Function, loop: cst.For, high: cst.BaseExpression, low: cst.BaseExpression) -> Parts | None:
    """Return both parts of an operand, if each is a name of one load in the loop that only the products use."""
    if not isinstance(high, cst.Name) or not isinstance(low, cst.Name):
        return None
    loads = [operand_load(function, item) for item in (high, low)]
    first, second = loads
    if first is None or second is None or not all(contains(loop, item) for item in (first, second)):
        return None
    if len(function.uses(high.value)) != 3 or len(function.uses(low.value)) != 2:
        return None
    if further_arguments(first) != further_arguments(second):
        return None
    at, beyond = (argument(item, "pointer", 0) for item in (first, second))
    if at is None or not isinstance(beyond, cst.BinaryOperation) or not isinstance(beyond.operator, cst.Add):
        return None
    distance = code(beyond.right)
    is_fixed = distance in function.parameters and not {distance} & {*function.assignments, *function.updates}
    return Parts(first, second, distance) if is_fixed and _same(at, beyond.left) else None


def _same(one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
    """Return whether two expressions are the same, whatever brackets and lines they have."""
    return canonical(code(one)) == canonical(code(other))


def _advances(function: Function, loop: cst.For, accumulator: str) -> dict[str, cst.AugAssign] | None:
    """Return what moves from step to step; None where the steps depend on each other in another way."""
    body = list(loop.body.body)
    inside = assigned_names(body)
    found: dict[str, cst.AugAssign] = {}
    for position, line in enumerate(body):
        if not find_all(line, m.AugAssign()):
            continue
        parsed = assignment(line) if isinstance(line, cst.BaseStatement) else None
        update = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
        if parsed is None or not isinstance(update, cst.AugAssign) or parsed[1] != "+=":
            return None
        name = code(update.target)
        steady = not names(update.value) & (inside | names(loop.target))
        used_later = any(name in names(statement) for statement in body[position + 1 :])
        if name in found or name in inside or not steady or used_later or not _starts_beside(function, loop, name):
            return None
        found[name] = update
    carried = inside & read_first(body)
    needed = inside & read_first(_after(function, loop))
    return found if not (carried | needed) - {accumulator} else None


def _starts_beside(function: Function, loop: cst.For, name: str) -> bool:
    """Return whether a name gets its value just before the loop, and nothing after the loop reads it.

    The value may be made in steps, as in `a = a_ptr` and `a = a + rows`, of which the first begins anew.
    """
    values = function.assignments.get(name, ())
    if not values or len(function.updates.get(name, ())) != 1 or name in {*function.parameters, *names(values[0])}:
        return False
    for block in find_all(function.node, m.IndentedBlock()):
        body = list(cst.ensure_type(block, cst.IndentedBlock).body)
        at = next((i for i, one in enumerate(body) if one is loop), None)
        if at is not None:
            lines = [statement for statement in body[:at] if isinstance(statement, cst.SimpleStatementLine)]
            before = all(any(contains(line, value) for line in lines) for value in values)
            inside = [statement for statement in body[: at + 1] for _ in find_all(statement, m.Name(name))]
            return before and len(inside) == len(function.uses(name))
    return False


def _after(function: Function, loop: cst.For) -> list[cst.CSTNode]:
    """Return the statements that run after a loop: those behind it in its block and in those around it."""
    found: list[cst.CSTNode] = []
    for block in find_all(function.node, m.IndentedBlock()):
        body = list(cst.ensure_type(block, cst.IndentedBlock).body)
        at = next((i for i, one in enumerate(body) if contains(one, loop)), None)
        if at is not None:
            found += body[at + 1 :]
    return found
