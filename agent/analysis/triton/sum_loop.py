"""The loop of a product's sum, whose steps may be divided among programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

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


def sum_loop(function: Function) -> SumLoop | None:
    """Return the only loop with products, of one accumulator, if its steps may be divided."""
    dots = dots_of(function)
    places = {(dot.accumulator, *map(id, function.loops_around(dot.node))) for dot in dots}
    if len(places) != 1 or len(next(iter(places))) != 2:
        return None
    dot, loop = dots[0], dots[0].loop
    call = loop.iter
    if not any(one is loop for one in function.node.body.body) or loop.orelse is not None:
        return None
    if not m.matches(call, m.Call(func=m.Name("range"))):
        return None
    bounds = [code(arg.value) for arg in cst.ensure_type(call, cst.Call).args]
    if len(bounds) not in (2, 3) or bounds[0] != "0":
        return None
    stop = bounds[1]
    steps, first, end, further = stop, "first_step", f"min(first_step + steps_of_part, {stop})", ""
    if len(bounds) == 3:
        step = bounds[2]
        steps, further = f"tl.cdiv({stop}, {step})", f", {step}"
        first, end = f"first_step * {step}", f"min((first_step + steps_of_part) * {step}, {stop})"
    inside = assigned_names([loop])
    updates = [cst.ensure_type(one, cst.AugAssign) for one in find_all(loop, m.AugAssign())]
    advances = [(code(one.target), code(one.value)) for one in updates if code(one.target) != dot.accumulator]
    plain = all(isinstance(one.operator, cst.AddAssign) for one in updates)
    steady = not any(names(expression(value)) & (inside | names(loop.target)) for _, value in advances)
    body = list(function.node.body.body)
    at = next(i for i, one in enumerate(body) if one is loop)
    carried = inside & assigned_names(body[:at]) & read_first(loop.body.body)
    needed = inside & read_first(body[at + 1 :])
    stored = any(contains(one, store) for one in body[: at + 1] for store in function.stores)
    if not plain or not steady or (carried | needed) - {dot.accumulator} or stored:
        return None
    part, has_part = f"range({first}, {end}{further})", f"{first} < {end}"
    return SumLoop(dot, loop, part, has_part, steps, tuple(advances))


def assigned_names(body: Sequence[cst.CSTNode]) -> set[str]:
    """Return the names that statements assign."""
    targets = [one for statement in body for one in find_all(statement, m.AssignTarget() | m.AnnAssign())]
    return {name for one in targets for name in names(target_of(one))}


def read_first(body: Sequence[cst.CSTNode]) -> set[str]:
    """Return the names that statements read before they assign them."""
    found: set[str] = set()
    known: set[str] = set()
    for statement in body:
        lines = list(statement.body) if isinstance(statement, cst.SimpleStatementLine) else []
        inner = lines[0] if len(lines) == 1 else None
        if isinstance(inner, cst.Assign):
            found |= names(inner.value) - known
            known |= {name for one in inner.targets for name in names(one.target)}
        else:
            found |= names(statement) - known
    return found
