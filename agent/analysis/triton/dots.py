"""Finds the matrix products of a `@triton.jit` function, and the loop of a sum whose steps may be divided."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ..applicability import need, require
from ..source import code, expression, names
from ..template import matches
from ..tree import assignment, calls_in, contains, find_all, target_of
from .function import SPLIT_DOT, Function, argument
from .kernel import Launch

PRECISIONS = ("ieee", "tf32x3", "bf16x3", "bf16x3-promoted")
"""Precisions that split-precision lets a product choose."""
OTHER_FLOATS = r"b?float16|half|float64|float8\w*|fp8\w*"
"""Names of floats that are not fp32: to split such operands would gain nothing."""


@dataclass(frozen=True)
class Dot:
    """`acc = tl.dot(a, b, acc, ...)` or `acc += tl.dot(a, b, ...)` inside of at least one loop.

    In `acc += tl.dot(a, b, tl.dot(c, d))`, which promoted-products writes, the inner ones belong to it.
    """

    function: Function
    node: cst.Call
    statement: cst.SimpleStatementLine
    accumulator: str
    left: cst.BaseExpression
    right: cst.BaseExpression
    precision: str | None
    """'ieee', 'tf32x3', ...; None for a parameter or another expression, and with inner products."""
    choice: str | None = None
    """The parameter that decides the precision of a `split_dot`."""
    inner: tuple[cst.BaseExpression, ...] = ()
    """The operands of inner products."""

    @property
    def operands(self) -> tuple[cst.BaseExpression, ...]:
        """Operands of all its products."""
        return self.left, self.right, *self.inner

    @property
    def loop(self) -> cst.For:
        """The innermost loop around it."""
        return self.function.loops_around(self.node)[-1]


def dots_of(function: Function) -> list[Dot]:
    """Return the products that sum into an accumulator in a loop; other calls of `tl.dot` are left out."""
    found = (_dot(function, call) for call in calls_in(function.node, "tl.dot", SPLIT_DOT))
    return [item for item in found if item is not None]


@dataclass(frozen=True)
class OperandLoad:
    """An operand of a product that is one load of a tensor."""

    call: cst.Call
    pointer: cst.BaseExpression
    base: str
    """The parameter that the pointer starts from."""
    tensor: cst.BaseExpression
    """The argument that the launch passes for the parameter."""

    @classmethod
    def of(cls, launch: Launch, value: cst.BaseExpression) -> OperandLoad:
        """Return the load of an operand. Raises NotApplicableError if it is not a load of a tensor of the launch."""
        call = need(operand_load(launch.function, value), f"the operand {code(value)} is not a load")
        pointer = need(argument(call, "pointer", 0), "a load without a pointer")
        base = need(launch.function.base(pointer), f"the operand {code(value)} is loaded through no parameter")
        return cls(call, pointer, base, need(launch.arguments.get(base), f"the launch does not give {base}"))


def operand_load(function: Function, value: cst.BaseExpression) -> cst.Call | None:
    """Return the load that an operand of a product is, directly or by a name that is assigned once."""
    if isinstance(value, cst.Name):
        value = function.value_of(value.value) or value
    return value if isinstance(value, cst.Call) and value in function.loads else None


def _dot(function: Function, call: cst.Call) -> Dot | None:
    statement, given = function.statement_of(call), argument(call, "acc", 2)
    left, right = argument(call, "input", 0), argument(call, "other", 1)
    parts = assignment(statement)
    if statement is None or parts is None or left is None or right is None or not function.loops_around(call):
        return None
    target, operator, value = parts
    operands = _inner(given)
    fits = (given is None or operands) if operator == "+=" else given is not None and code(given) == code(target)
    if not fits or value is not call or not isinstance(target, cst.Name):
        return None
    if isinstance(call.func, cst.Name):
        chosen = argument(call, "PRECISION", 3)
        return Dot(function, call, statement, target.value, left, right, None, code(chosen) if chosen else None)
    precision = None if operands else _precision(function, call)
    return Dot(function, call, statement, target.value, left, right, precision, inner=operands)


def _inner(given: cst.BaseExpression | None) -> tuple[cst.BaseExpression, ...]:
    """Return the operands of a product that another one adds to; empty if that adds to anything else."""
    if not isinstance(given, cst.Call) or not matches(given, "tl.dot(q__)"):
        return ()
    left, right, further = argument(given, "input", 0), argument(given, "other", 1), argument(given, "acc", 2)
    below = _inner(further)
    return (left, right, *below) if left and right and (further is None or below) else ()


def _precision(function: Function, call: cst.Call) -> str | None:
    """Return the precision of fp32 operands; without a word about it, Triton uses TF32."""
    named, allowed = argument(call, "input_precision"), argument(call, "allow_tf32")
    if named is not None:
        text = function.literal(named)
        return text.strip("\"'") if text and text[0] in "\"'" else None
    if allowed is not None:
        return {"False": "ieee", "True": "tf32"}.get(function.literal(allowed) or "")
    return "tf32"


def axes_of(launch: Launch, leave_out: Collection[str] = ()) -> list[str] | None:
    """Return the texts of the sizes of `tl.arange` on the host, each once, without ones and without some parameters.

    Their product is the number of elements of the function's largest block. None where one is not known there.
    """
    found: list[str] = []
    for call in launch.function.calls("arange"):
        size = call.args[1].value if len(call.args) == 2 else None
        text = launch.function.literal(size)
        if isinstance(size, cst.Name) and size.value in launch.function.parameters:
            if size.value in leave_out:
                continue
            text = launch.texts.get(size.value)
        if text is None:
            return None
        found.append(text)
    return [text for text in dict.fromkeys(found) if text != "1"]


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
    """Pointers, and their increment per step."""


def sum_loop(function: Function) -> SumLoop:
    """Return the only loop with products, of one accumulator, whose steps may be divided. Raises NotApplicableError."""
    dots = dots_of(function)
    places = {(dot.accumulator, *map(id, function.loops_around(dot.node))) for dot in dots}
    require(len(places) == 1 and len(next(iter(places))) == 2, "not one loop sums into one accumulator")
    dot, loop, body = dots[0], dots[0].loop, function.node.body.body
    at = function.place_of(loop)
    own = at is not None and loop.orelse is None
    require(own, "the sum's loop is inside another block, or has an `else`")
    require(matches(loop.iter, "range(q__)"), "the sum's loop is not over `range`")
    bounds = [code(arg.value) for arg in cst.ensure_type(loop.iter, cst.Call).args]
    require(len(bounds) in (2, 3) and bounds[0] == "0", "the sum's loop does not start at 0")
    stop = bounds[1]
    steps, first, end, further = stop, "first_step", f"min(first_step + steps_of_part, {stop})", ""
    if len(bounds) == 3:
        step = bounds[2]
        steps, further = f"tl.cdiv({stop}, {step})", f", {step}"
        first, end = f"first_step * {step}", f"min((first_step + steps_of_part) * {step}, {stop})"
    inside, updates = assigned_names([loop]), find_all(loop, cst.AugAssign)
    advances = [
        (code(update.target), code(update.value)) for update in updates if code(update.target) != dot.accumulator
    ]
    plain = all(isinstance(update.operator, cst.AddAssign) for update in updates)
    steady = not any(names(expression(value)) & (inside | names(loop.target)) for _, value in advances)
    require(plain and steady, "a step moves a pointer by another amount than the one before")
    carried = inside & assigned_names(body[:at]) & read_first(loop.body.body)
    needed = inside & read_first(body[(at or 0) + 1 :])
    require(not (carried | needed) - {dot.accumulator}, "a step reads what the one before left")
    stored = any(contains(statement, store) for statement in body[: (at or 0) + 1] for store in function.stores)
    require(not stored, "the function stores before the sum is complete")
    return SumLoop(dot, loop, f"range({first}, {end}{further})", f"{first} < {end}", steps, tuple(advances))


def assigned_names(body: Sequence[cst.CSTNode]) -> set[str]:
    """Return the names that statements assign."""
    kinds = m.AssignTarget() | m.AnnAssign()
    return names(*(target_of(assignment) for statement in body for assignment in find_all(statement, kinds)))


def read_first(body: Sequence[cst.CSTNode]) -> set[str]:
    """Return the names that statements read before they assign them."""
    found: set[str] = set()
    known: set[str] = set()
    for statement in body:
        match statement:
            case cst.SimpleStatementLine(body=[cst.Assign(targets=targets, value=value)]):
                found |= names(value) - known
                known |= names(*(item.target for item in targets))
            case _:
                found |= names(statement) - known
    return found
