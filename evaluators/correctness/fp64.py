"""Accuracy of a result: its error against the reference in fp64, beside torch's own error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...core import Status, Tolerance
from ...core.text import first_line
from ..workers.channel import Message
from ..workers.modules import outputs_of
from .compare import EXACT, RelativeError, dtype_name, pieces
from .exact_parts import exact_parts

FLOOR = {"float64": 1e-11, "float32": 3e-5, "float16": 2e-3, "bfloat16": 1.6e-2}
"""Root mean square errors above any summation order's and below the next lower precision's: TF32 has 2e-4 and more,
bf16 2e-3, fp8 3e-2."""
TIMES_TORCH = 8.0
"""Allowed multiple of torch's error, where torch itself exceeds the floor."""
COPES = 0.1
"""A distribution of inputs is used only if torch's own largest error is below this share of the tolerance."""


class Fp64Comparison:
    """One problem's reference in fp64; says nothing where it cannot be computed in fp64."""

    def __init__(self) -> None:
        self._rounding: dict[str | None, float] = {}
        self.obstacle: str | None = None
        """Why the reference cannot be computed in fp64."""

    def rounding(self, distribution: str | None) -> float:
        """Return torch's largest error seen so far, relative to the root mean square of the result."""
        return self._rounding.get(distribution, 0.0)

    def copes(self, model: Any, inputs: Sequence[Any], distribution: str, tolerances: Mapping[str, Tolerance]) -> bool:
        """Return whether the reference itself is finite and accurate on such inputs; remembers its error."""
        import torch

        expected = outputs_of(model(*[_copy(value) for value in inputs]))
        if not all(isinstance(one, torch.Tensor) and _is_finite(one) for one in expected):
            return False
        found = self._errors(model, inputs, expected)
        if found is None or not found.same_indices:
            return False
        errors = [(error.largest, one) for error, one in zip(found.of[0], _floating(expected), strict=True)]
        self._rounding[distribution] = max(error for error, _ in errors)
        return all(error <= COPES * min(tolerances.get(dtype_name(one), EXACT)) for error, one in errors)

    def compare(self, model: Any, inputs: Sequence[Any], expected: Sequence[Any], actual: Sequence[Any]) -> Message:
        """Return the errors of candidate and torch against fp64; wrong_value when the candidate has a lower precision.

        Empty where there is no fp64 result.
        """
        errors = self._errors(model, inputs, expected, actual)
        if errors is None:
            return {}
        torchs, own = ([(error.root_mean_square, error.largest) for error in side] for side in errors.of)
        self._rounding[None] = max(self.rounding(None), *(largest for _, largest in torchs))
        found: Message = {"error_fp64": max(rms for rms, _ in own), "torch_error_fp64": max(rms for rms, _ in torchs)}
        for (mine, _), (torch_rms, _), one in zip(own, torchs, _floating(expected), strict=True):
            dtype = dtype_name(one)
            limit = max(TIMES_TORCH * torch_rms, FLOOR.get(dtype, 0.0))
            if mine > limit and dtype in FLOOR:
                message = (
                    f"less exact than {dtype}: the error against fp64 is {mine:.1e} of the result (root mean square), "
                    f"torch's is {torch_rms:.1e}; compute in the precision of the problem"
                )
                return {**found, "status": Status.WRONG_VALUE, "message": message}
        return found

    def _errors(
        self, model: Any, inputs: Sequence[Any], expected: Sequence[Any], actual: Sequence[Any] | None = None
    ) -> _Errors | None:
        """Compare torch's result, and the candidate's, with fp64; None where fp64 is impossible, or was before."""
        if self.obstacle is not None:
            return None
        sides = [list(one) for one in (expected, actual) if one is not None]
        errors = [[RelativeError() for _ in _floating(expected)] for _ in sides]
        same = True
        try:
            for part, exact in exact_parts(model, inputs, expected):
                if (obstacle := _obstacle(exact, expected)) is not None:
                    self.obstacle = obstacle
                    return None
                for one, *results in zip(exact, *sides, strict=True):
                    same = same and (one.is_floating_point() or _equal(one, results[0][part]))
                for side, results in zip(errors, sides, strict=True):
                    for error, one, result in zip(side, _floating(exact), _floating(results), strict=True):
                        error.add(one, result[part])
        except (RuntimeError, TypeError, MemoryError) as error:  # own casts, no fp64 kernel, or no memory
            self.obstacle = first_line(f"{type(error).__name__}: {error}")
            return None
        return _Errors(errors, same)


@dataclass(frozen=True)
class _Errors:
    """The errors of each side's floating outputs, torch's first."""

    of: list[list[RelativeError]]
    same_indices: bool
    """Whether torch's indices and masks are those of fp64."""


def _obstacle(exact: Sequence[Any], expected: Sequence[Any]) -> str | None:
    """Return why these outputs are no fp64 result; None where they are.

    Indices and masks stay exact as they are; at least one result must gain from fp64.
    """
    import torch

    fit = (torch.float64, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
    if not all(isinstance(one, torch.Tensor) and one.dtype in fit for one in exact):
        return "it returns another precision than that of its inputs"
    if [one.is_floating_point() for one in exact] != [one.is_floating_point() for one in expected]:
        return "it returns other kinds of outputs"
    return None if _floating(exact) else "it returns no floating-point numbers"


def _floating(outputs: Sequence[Any]) -> list[Any]:
    return [one for one in outputs if one.is_floating_point()]


def _is_finite(tensor: Any) -> bool:
    return all(bool(part.isfinite().all()) for _, part, _ in pieces(tensor, tensor))


def _equal(one: Any, other: Any) -> bool:
    return bool(one.shape == other.shape) and all(bool((a == b).all()) for _, a, b in pieces(one, other))


def _copy(value: Any) -> Any:
    import torch

    return value.clone() if isinstance(value, torch.Tensor) else value
