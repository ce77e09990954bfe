"""Trivial outputs need no kernel: zeros, one value everywhere, an input. A check that they pass proves little."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .compare import Allowed, close_everywhere
from .eight_bit import widened
from .errors import as_real, pieces

FIRST = 64
"""Elements that are looked at before all."""


def passing_trivial_outputs(expected: Sequence[Any], inputs: Sequence[Any], allowed: Allowed) -> list[str]:
    """Return the trivial outputs that would have passed for every output: 'zeros', 'mean', 'input 0'.

    An output with one element equals its own mean, so 'mean' counts only for larger ones.
    """
    expected, inputs = [as_real(wanted) for wanted in expected], [as_real(value) for value in inputs]
    limits = [allowed.of(wanted) for wanted in expected]
    passing = []
    if all(close_everywhere(wanted, 0.0, limit) for wanted, limit in zip(expected, limits, strict=True)):
        passing.append("zeros")
    if all(wanted.numel() > 1 and wanted.is_floating_point() for wanted in expected) and all(
        close_everywhere(wanted, _mean(wanted), limit) for wanted, limit in zip(expected, limits, strict=True)
    ):
        passing.append("mean")
    for i, value in enumerate(inputs):
        if all(_alike(value, wanted) for wanted in expected) and all(
            close_everywhere(wanted, value, limit) for wanted, limit in zip(expected, limits, strict=True)
        ):
            passing.append(f"input {i}")
    return passing


@dataclass(frozen=True)
class TrivialOutput:
    """A trivial result of a candidate where the reference's is not trivial."""

    name: str
    what: str

    def __str__(self) -> str:
        return self.what

    @classmethod
    def of(cls, actual: Sequence[Any], expected: Sequence[Any], inputs: Sequence[Any]) -> TrivialOutput | None:
        """Return the trivial output that `actual` is; None for another, or where the reference is trivial too."""
        actual, expected, inputs = ([widened(item) for item in several] for several in (actual, expected, inputs))
        if all(_is_constant(wanted) for wanted in expected):
            return None
        if all(_is_constant(item) for item in actual):
            value = float(actual[0].reshape(-1)[0])
            return cls("zeros", "zeros") if value == 0 else cls("constant", f"{value:.6g} everywhere")
        for i, value in enumerate(inputs):
            if all(_equal(value, item) for item in actual) and not all(_equal(value, wanted) for wanted in expected):
                return cls(f"input {i}", f"input {i}")
        return None


def _mean(tensor: Any) -> float:
    """Return the mean in fp64, without a copy of the whole tensor in fp64."""
    total = math.fsum(float(part.double().sum()) for _, part, _ in pieces(tensor, tensor))
    return total / int(tensor.numel())


def _is_constant(tensor: Any) -> bool:
    if not tensor.numel():
        return False
    flat = tensor.reshape(-1)
    # The first elements decide most cases.
    start = bool((flat[:FIRST] == flat[0]).all())
    return start and all(bool((part == flat[0]).all()) for _, part, _ in pieces(flat, flat))


def _equal(value: Any, other: Any) -> bool:
    if not _alike(value, other):
        return False
    first, second = value.reshape(-1), other.reshape(-1)
    # The first elements decide most cases.
    return bool((first[:FIRST] == second[:FIRST]).all()) and all(
        bool((left == right).all()) for _, left, right in pieces(first, second)
    )


def _alike(value: Any, other: Any) -> bool:
    return bool(getattr(value, "shape", None) == other.shape and value.dtype == other.dtype)
