"""The loop of a product's sum, whose steps may be divided among programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ..applicability import require
from ..search import contains, find_all
from ..source import code, expression, names, target_of
from .dots import Dot, dots_of
from .function import Function


@dataclass(frozen=True)
class SumLoop:
    """A loop whose steps add to one accumulator, and to nothing else that they read again but advancing pointers."""

    dot: Dot
    node: cst.For
    part: str
    """The loop's range for one program."""
    has_part: str
    """Whether a program has any steps."""
    steps: str
    """Their number, as an expression of the function."""
    advances: tuple[tuple[str, str], ...]
    """Pointers, and what each step adds to them."""


def sum_loop(function: Function) -> SumLoop:
    """Return the only loop with products, of one accumulator, whose steps may be divided. Raises NotApplicable."""
    dots = dots_of(function)
    places = {(dot.accumulator, *map(id, function.loops_around(dot.node))) for dot in dots}
    require(len(places) == 1 and len(next(iter(places))) == 2, "not one loop sums into one accumulator")
    dot, loop = dots[0], dots[0].loop
    call = loop.iter
    own = any(statement is loop for statement in function.node.body.body) and loop.orelse is None
    require(own, "the sum's loop is inside another block, or has an `else`")
    require(m.matches(call, m.Call(func=m.Name("range"))), "the sum's loop is not over `range`")
    bounds = [code(arg.value) for arg in cst.ensure_type(call, cst.Call).args]
    require(len(bounds) in (2, 3) and bounds[0] == "0", "the sum's loop does not start at 0")
    stop = bounds[1]
    steps, first, end, further = stop, "first_step", f"min(first_step + steps_of_part, {stop})", ""
    if len(bounds) == 3:
        step = bounds[2]
        steps, further = f"tl.cdiv({stop}, {step})", f", {step}"
        first, end = f"first_step * {step}", f"min((first_step + steps_of_part) * {step}, {stop})"
    inside = assigned_names([loop])
    updates = [cst.ensure_type(match, cst.AugAssign) for match in find_all(loop, m.AugAssign())]
    advances = [
        (code(update.target), code(update.value)) for update in updates if code(update.target) != dot.accumulator
    ]
    plain = all(isinstance(update.operator, cst.AddAssign) for update in updates)
    steady = not any(names(expression(value)) & (inside | names(loop.target)) for _, value in advances)
    require(plain and steady, "a step moves a pointer by another amount than the one before")
    body = list(function.node.body.body)
    at = next(i for i, one in enumerate(body) if one is loop)
    carried = inside & assigned_names(body[:at]) & read_first(loop.body.body)
    needed = inside & read_first(body[at + 1 :])
    require(not (carried | needed) - {dot.accumulator}, "a step reads what the one before left")
    stored = any(contains(statement, store) for statement in body[: at + 1] for store in function.stores)
    require(not stored, "the function stores before the sum is complete")
    part, has_part = f"range({first}, {end}{further})", f"{first} < {end}"
    return SumLoop(dot, loop, part, has_part, steps, tuple(advances))


def assigned_names(body: Sequence[cst.CSTNode]) -> set[str]:
    """Return the names that statements assign."""
    targets = [match for statement in body for match in find_all(statement, m.AssignTarget() | m.AnnAssign())]
    return {name for target in targets for name in names(target_of(target))}


def read_first(body: Sequence[cst.CSTNode]) -> set[str]:
    """Return the names that statements read before they assign them."""
    found: set[str] = set()
    known: set[str] = set()
    for statement in body:
        lines = list(statement.body) if isinstance(statement, cst.SimpleStatementLine) else []
        inner = lines[0] if len(lines) == 1 else None
        if isinstance(inner, cst.Assign):
            found |= names(inner.value) - known
            known |= {name for item in inner.targets for name in names(item.target)}
        else:
            found |= names(statement) - known
    return found
