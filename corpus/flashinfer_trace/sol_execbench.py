"""Extensions of flashinfer-trace by SOL-ExecBench: axes by expression, inputs that the reference makes, tolerances per
Workload, lists of languages, two more statuses.

Its datasets have a folder per problem, with definition.json, workload.jsonl (Workloads, not Traces) and Solutions.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any, Literal

from pydantic import Field, field_validator

from ...core import Tolerance
from ...core.problem import TOLERANCES
from ...core.syntax_tree import expression_tree
from .record import Record, Text

DEFINITION, WORKLOADS, SOLUTIONS, TRACES = "definition.json", "workload.jsonl", "solution*.json", "traces.jsonl"
"""The files of a problem's folder."""

Language = Literal[
    "pytorch", "triton", "tlx", "cute_dsl", "cutile", "cudnn_frontend", "cutlass", "cudnn", "cublas", "cuda_cpp"
]  # fmt: skip

_OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.UAdd: operator.pos, ast.USub: operator.neg,
}  # fmt: skip
_PLAIN = (ast.BinOp, ast.UnaryOp, ast.Name, ast.Load, ast.Constant, ast.Pow)
_MAX_EXPONENT = 64
"""Larger powers are not extents, and `9**9**9` would never finish."""


class ExprAxis(Record):
    """An extent that follows from const and var axes."""

    type: Literal["expr"]
    expression: Text
    description: str | None = None

    @field_validator("expression")
    @classmethod
    def _only_arithmetic(cls, text: str) -> str:
        try:
            tree = expression_tree(text)
        except (SyntaxError, ValueError):
            raise ValueError(f"{text!r} is not an expression") from None
        for node in ast.walk(tree):
            if not isinstance(node, (*_OPERATORS, *_PLAIN)):
                raise ValueError(f"{text}: {type(node).__name__} is not allowed; use + - * / // % ** over axes")
        return text

    @property
    def names(self) -> frozenset[str]:
        """The axes that it depends on."""
        return _names(expression_tree(self.expression))

    def extent(self, extents: Mapping[str, int]) -> int:
        """Return its value. Raises `ValueError` if it is not an integer of at least 0."""
        try:
            value = _compute(expression_tree(self.expression), extents)
        except (ArithmeticError, TypeError) as error:
            raise ValueError(f"{self.expression}: {error}") from None
        if value < 0 or value != int(value):
            raise ValueError(f"{self.expression} is {value}, which is not an extent")
        return int(value)


def _names(tree: ast.expr) -> frozenset[str]:
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


def _compute(node: ast.expr, extents: Mapping[str, int]) -> Any:
    match node:
        case ast.Name(id=name):
            return extents[name]
        case ast.UnaryOp(op=sign, operand=operand):
            return _OPERATORS[type(sign)](_compute(operand, extents))
        case ast.BinOp(left=left, op=sign, right=right):
            first, second = _compute(left, extents), _compute(right, extents)
            if isinstance(sign, ast.Pow):
                if abs(second) > _MAX_EXPONENT:
                    raise OverflowError(f"no extent is a power of {second}")
                return first**second
            return _OPERATORS[type(sign)](first, second)
    return ast.literal_eval(node)


class CustomInput(Record):
    """An input that the Definition's `custom_inputs_entrypoint` makes; then it makes all of the Workload's."""

    type: Literal["custom"]


class ToleranceSpec(Record):
    """How exact the outputs of a Workload must be."""

    max_atol: float = Field(default=1e-2, ge=0)
    max_rtol: float = Field(default=1e-2, ge=0)
    required_matched_ratio: float = Field(default=0.99, gt=0, le=1)
    """The share of the elements that must be within both."""
    max_error_cap: float | None = Field(default=None, gt=0)
    """The absolute error that no element may have."""

    def tolerances(self) -> dict[str, Tolerance]:
        """Return the tolerances by dtype: these for floating-point numbers; others must be equal."""
        tolerance = Tolerance(self.max_atol, self.max_rtol, self.required_matched_ratio)
        if self.max_error_cap is not None:
            tolerance = tolerance._replace(cap=self.max_error_cap)
        return dict.fromkeys(TOLERANCES, tolerance)
