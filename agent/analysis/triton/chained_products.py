"""Finds three products of split operands that sum into one accumulator, one after the other."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from ..applicability import need, require
from ..source import canonical, code, names
from ..template import match
from ..tree import assignment, block_of, contains, find_all, named
from .dots import Dot, assigned_names, dots_of, operand_load, read_first
from .function import Function, addends, argument, further_arguments, is_range


@dataclass(frozen=True)
class Parts:
    """An operand as two loads, the second of which is at a distance from the first: `p` and `p + distance`."""

    high: cst.Call
    low: cst.Call
    pointer: cst.BaseExpression
    """Pointer of the first of these loads."""
    distance: str
    """A parameter that the function does not change."""


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


def three_in_a_row(function: Function) -> list[Dot]:
    """Return three products that follow each other into one accumulator. Raises NotApplicableError for any others."""
    dots = dots_of(function)
    alone = all(dot.choice is None and not dot.inner for dot in dots)
    one_sum = len(dots) == 3 and len({dot.accumulator for dot in dots}) == 1 and alone
    require(one_sum, "no three products sum into one accumulator")
    body = list(dots[0].loop.body.body)
    places = [next((i for i, line in enumerate(body) if line is dot.statement), -1) for dot in dots]
    follow = places[0] >= 0 and places == list(range(places[0], places[0] + 3))
    require(follow, "three products do not follow each other")
    return dots


def chain_of(function: Function) -> Chain:
    """Return the function's chain of three products. Raises NotApplicableError for any other loop."""
    dots = three_in_a_row(function)
    loop, (first, second, last) = dots[0].loop, dots
    options = {(dot.precision, further_arguments(dot.node.with_changes(args=dot.node.args[2:]))) for dot in dots}
    require(len(options) == 1, "the three products have different options")
    plain = [item for item in loop.iter.args if item.keyword is None] if isinstance(loop.iter, cst.Call) else []
    counts = is_range(loop) and 1 <= len(plain) <= 3
    require(counts, "the products' loop is not over a plain range")
    # The sums of the low parts come in either order, that of both high parts is the one that shares with both.
    orders = [(low, mixed) for low, mixed in ((first, second), (second, first)) if code(low.right) == code(last.right)]
    orders = [(low, mixed) for low, mixed in orders if code(mixed.left) == code(last.left)]
    require(orders, "the products are not of two operands in two parts each")
    low, mixed = orders[0]
    left = _parts(function, loop, last.left, low.left)
    right = _parts(function, loop, last.right, mixed.right)
    return Chain(function, loop, (low, mixed, last), left, right, _advances(function, loop, first.accumulator))


def _parts(function: Function, loop: cst.For, high: cst.BaseExpression, low: cst.BaseExpression) -> Parts:
    """Return both parts of an operand, if each is a name of one load in the loop that only the products use."""
    text = code(high)
    named = isinstance(high, cst.Name) and isinstance(low, cst.Name)
    alone = named and len(function.uses(text)) == 3 and len(function.uses(code(low))) == 2
    require(alone, f"{text} or its low part is not a name that the products alone use")
    first, second = (
        need(operand_load(function, item), f"{text} or its low part is not a load") for item in (high, low)
    )
    alike = further_arguments(first) == further_arguments(second) and contains(loop, first) and contains(loop, second)
    require(alike, f"both parts of {text} are not loaded alike in the loop")
    at, beyond = (need(argument(item, "pointer", 0), "a load without a pointer") for item in (first, second))
    parts, distance = match("q_start + q_distance", beyond) or {}, code(addends(beyond)[-1])
    apart = parts.get("start") == canonical(code(at)) and function.is_fixed(distance)
    require(apart, f"the low part of {text} is not at a distance from the high one")
    return Parts(first, second, at, distance)


def _advances(function: Function, loop: cst.For, accumulator: str) -> dict[str, cst.AugAssign]:
    """Return what changes from step to step.

    Raises NotApplicableError where the steps depend on each other in another way.
    """
    body = block_of(loop)
    inside = assigned_names(body)
    found: dict[str, cst.AugAssign] = {}
    for position, line in enumerate(body):
        for update in find_all(line, cst.AugAssign):
            name, parsed = code(update.target), assignment(line)
            steady = not names(update.value) & (inside | names(loop.target))
            used_later = any(name in names(statement) for statement in body[position + 1 :])
            once = parsed is not None and parsed[1] == "+=" and name not in {*found, *inside}
            plain = once and steady and not used_later and _starts_beside(function, loop, name)
            require(plain, f"{name} does not move by the same amount in each step of the products' loop")
            found[name] = update
    carried = inside & read_first(body)
    needed = inside & read_first(_after(function, loop))
    require(not (carried | needed) - {accumulator}, "a step reads what the one before left")
    return found


def _starts_beside(function: Function, loop: cst.For, name: str) -> bool:
    """Return whether a name gets its value just before the loop, and nothing after the loop reads it.

    The value may be made in steps, as in `a = a_ptr` and `a = a + rows`, of which the first begins anew.
    """
    values = function.assignments.get(name, ())
    if not values or len(function.updates.get(name, ())) != 1 or name in {*function.parameters, *names(values[0])}:
        return False
    for block in find_all(function.node, cst.IndentedBlock):
        at = next((i for i, statement in enumerate(block.body) if statement is loop), None)
        if at is not None:
            lines = [statement for statement in block.body[:at] if isinstance(statement, cst.SimpleStatementLine)]
            before = all(any(contains(line, value) for line in lines) for value in values)
            inside = [use for statement in block.body[: at + 1] for use in named(statement, name)]
            return before and len(inside) == len(function.uses(name))
    return False


def _after(function: Function, loop: cst.For) -> list[cst.CSTNode]:
    """Return the statements that run after a loop: the following ones in its block and in enclosing blocks."""
    found: list[cst.CSTNode] = []
    for block in find_all(function.node, cst.IndentedBlock):
        at = next((i for i, statement in enumerate(block.body) if contains(statement, loop)), len(block.body))
        found += block.body[at + 1 :]
    return found
