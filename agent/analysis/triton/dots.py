"""Finds the matrix products of a `@triton.jit` function."""

from __future__ import annotations

import re
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ..search import find_all
from ..source import code
from .function import Function, argument

SPLIT_DOT = "split_dot"
"""The function of a file that computes a product with a precision of a choice; the rule split-precision writes it."""
PRECISIONS = ("ieee", "tf32x3", "bf16x3", "bf16x3-promoted")
"""What that function can choose."""
OTHER_FLOATS = re.compile(r"\b(b?float16|half|float64|float8\w*|fp8\w*)\b")
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
    """'ieee', 'tf32x3', ...; None where it is a parameter or another expression, or where there are inner products."""
    choice: str | None = None
    """The parameter that decides the precision of a `split_dot`."""
    inner: tuple[cst.BaseExpression, ...] = ()
    """The operands of inner products."""

    @property
    def operands(self) -> tuple[cst.BaseExpression, ...]:
        """Those of all of its products."""
        return self.left, self.right, *self.inner

    @property
    def loop(self) -> cst.For:
        """The innermost loop around it."""
        return self.function.loops_around(self.node)[-1]


def dots_of(function: Function) -> list[Dot]:
    """Return the products that sum into an accumulator in a loop; other calls of `tl.dot` are left out."""
    calls = find_all(function.node, m.Call(func=m.Attribute(m.Name("tl"), m.Name("dot")) | m.Name(SPLIT_DOT)))
    found = [_dot(function, cst.ensure_type(call, cst.Call)) for call in calls]
    return [item for item in found if item is not None]


def operand_load(function: Function, value: cst.BaseExpression) -> cst.Call | None:
    """Return the load that an operand of a product is, directly or by a name that is assigned once."""
    if isinstance(value, cst.Name):
        value = function.value_of(value.value) or value
    return value if isinstance(value, cst.Call) and value in function.loads else None


def _dot(function: Function, call: cst.Call) -> Dot | None:
    statement = function.statement_of(call)
    left, right = argument(call, "input", 0), argument(call, "other", 1)
    if statement is None or len(statement.body) != 1 or left is None or right is None:
        return None
    if not function.loops_around(call):
        return None
    inner, given = statement.body[0], argument(call, "acc", 2)
    operands = _inner(given)
    if isinstance(inner, cst.AugAssign) and m.matches(inner, m.AugAssign(operator=m.AddAssign())):
        target, whole = inner.target, (given is None or bool(operands)) and inner.value is call
    elif isinstance(inner, cst.Assign) and len(inner.targets) == 1:
        target = inner.targets[0].target
        whole = inner.value is call and given is not None and code(given) == code(target)
    else:
        return None
    if not whole or not isinstance(target, cst.Name):
        return None
    if isinstance(call.func, cst.Name):
        chosen = argument(call, "PRECISION", 3)
        return Dot(function, call, statement, target.value, left, right, None, code(chosen) if chosen else None)
    precision = None if operands else _precision(function, call)
    return Dot(function, call, statement, target.value, left, right, precision, inner=operands)


def _inner(given: cst.BaseExpression | None) -> tuple[cst.BaseExpression, ...]:
    """Return the operands of a product that another one adds to; none where that adds to anything else."""
    if not m.matches(given or cst.Name("none"), m.Call(func=m.Attribute(m.Name("tl"), m.Name("dot")))):
        return ()
    call = cst.ensure_type(given, cst.Call)
    left, right, further = argument(call, "input", 0), argument(call, "other", 1), argument(call, "acc", 2)
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
