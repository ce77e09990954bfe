"""The errors of a user's unmodified function, which its candidates may have as well.

Real kernels have errors beyond the tolerance in few elements, or compute in less precision than their inputs have. Its
user accepts what the start does; so a candidate is correct where its own errors are within `TIMES_START` of the
start's. A start that is far off excuses nothing: it is wrong itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from ...core import Tolerance
from .eight_bit import widened
from .errors import relative_error
from .row_limits import rows_of

TIMES_START = 2.0
"""Allowed multiple of the start's largest error, and of its root mean square, against fp64."""
DRAWS = 3
"""Seeds on which the start's errors are measured; the largest count."""
WIDEST = 32.0
"""The start's largest error may be this multiple of the tolerance: TF32 has 16 times that of fp32."""
WIDEST_ROUNDED = 0.03
"""The start's share of whole numbers of eight bits that are one more or one less than the reference's: both round, and
few results lie so near to a half that it matters how they were computed. A quotient of half precision near 100 has
steps of a sixteenth, so that one in 32 may."""
WIDEST_RMS = {"float64": 1e-9, "float32": 4e-4, "float16": 4e-3, "bfloat16": 3.2e-2}
"""The start's root mean square error may be this share of the result: in fp32 that of TF32, else twice what the order
of a sum does."""


ROUNDED = ("int8", "uint8")
"""Types of whole numbers that quantization rounds to."""


def is_rounded(tensor: Any) -> bool:
    """Return whether a tensor has one of the types that quantization rounds to."""
    return str(tensor.dtype).removeprefix("torch.") in ROUNDED


@dataclass(frozen=True)
class Errors:
    """Of one output, against fp64."""

    root_mean_square: float
    """Relative to that of the output; where rows differ in size, of all errors relative to what `largest` is."""
    largest: float
    """Relative to the root mean square of the output, or of the row where rows differ in size, and the value together:
    as a tolerance counts that is absolute and relative."""

    @classmethod
    def of_rounded(cls, expected: Any, actual: Any) -> Errors:
        """Measure whole numbers: the share of those that differ, and the largest difference."""
        error = (actual.int() - expected.int()).abs()
        return cls(float((error > 0).double().mean()), float(error.max())) if error.numel() else cls(0.0, 0.0)

    def within(self, root_mean_square: float, largest: float) -> bool:
        """Return whether both are at most as large; False where one is NaN."""
        return self.root_mean_square <= root_mean_square and self.largest <= largest

    @classmethod
    def of(cls, exact: Any, actual: Any, axes: int | None) -> Errors:
        """Measure the error of `actual`; row by row for inputs of so many `axes` whose rows differ in size.

        Infinite where one of the two is not finite and the other one is not the same.
        """
        exact, actual = widened(exact), widened(actual)
        if not bool((exact.isfinite() & actual.isfinite() | _same(exact, actual)).all()):
            return cls(math.inf, math.inf)
        if axes is not None:
            errors = _by_size(rows_of(exact, axes).double(), rows_of(actual, axes))
            return cls(_root_mean_square(errors), _largest(errors))
        errors = _by_size(exact.double().reshape(1, -1), actual.reshape(1, -1))
        return cls(relative_error(exact, actual)[0], _largest(errors))


@dataclass
class StartErrors:
    """What was measured, by distribution and number of the output."""

    _known: dict[tuple[str | None, int], Errors] = field(default_factory=dict)
    used: Errors | None = None
    """The start's errors by which the last output was accepted."""
    _used_rounded: bool = False

    def learn(self, distribution: str | None, number: int, errors: Errors) -> None:
        """Remember the errors of one call; the largest count."""
        before = self._known.get((distribution, number), Errors(0.0, 0.0))
        worse = max(before.root_mean_square, errors.root_mean_square), max(before.largest, errors.largest)
        self._known[distribution, number] = Errors(*worse)

    @property
    def said(self) -> str:
        """What a report says of a result that was accepted by the start's errors; empty where none was."""
        if self.used is None:
            return ""
        if self._used_rounded:
            share = self.used.root_mean_square
            return f"whole numbers differ by one from the reference's, as {share:.1%} do of the function as it stands"
        return (
            f"beyond the tolerance, and within {TIMES_START:g} times the errors of the function as it stands: its "
            f"largest error against fp64 is {self.used.largest:.1e} of the result"
        )

    def known(self, distribution: str | None) -> bool:
        """Return whether the start was measured on inputs of a distribution."""
        return any(name == distribution for name, _ in self._known)

    def rms_limit(self, number: int, dtype: str) -> float:
        """Return the root mean square error that an output may have on the problem's own inputs, by the start's; 0
        where that is far off."""
        known = self._known.get((None, number))
        near = known is not None and known.within(WIDEST_RMS.get(dtype, 0.0), math.inf)
        return TIMES_START * known.root_mean_square if known is not None and near else 0.0

    def excuse(self, distribution: str | None, number: int, errors: Errors, tolerance: Tolerance, dtype: str) -> bool:
        """Return whether a candidate may have these errors, since the start has such."""
        known = self._known.get((distribution, number))
        if known is None:
            return False
        if dtype in ROUNDED:
            if not known.within(WIDEST_ROUNDED, 1.0):
                return False
        elif not known.within(WIDEST_RMS.get(dtype, 0.0), WIDEST * tolerance.tightest):
            return False
        if not errors.within(TIMES_START * known.root_mean_square, TIMES_START * known.largest):
            return False
        self.used, self._used_rounded = known, dtype in ROUNDED
        return True


def _same(exact: Any, actual: Any) -> Any:
    """Return where both are NaN, or the same number or infinity."""
    return (exact == actual) | (exact.isnan() & actual.isnan())


def _by_size(exact: Any, actual: Any) -> Any:
    """Return the errors of the finite elements of rows, relative to the row's root mean square and the value together.

    What is not finite has no size, and is the same in both.
    """
    import torch

    finite = torch.where(exact.isfinite(), exact, 0.0)
    size = finite.square().mean(dim=1, keepdim=True).sqrt() + finite.abs()
    error = (actual.double() - finite).abs() / size.clamp(min=torch.finfo(torch.float32).tiny)
    return error[exact.isfinite()]


def _largest(errors: Any) -> float:
    return float(errors.max()) if errors.numel() else 0.0


def _root_mean_square(errors: Any) -> float:
    return float(errors.square().mean().sqrt()) if errors.numel() else 0.0
