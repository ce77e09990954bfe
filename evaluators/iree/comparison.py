"""Compares a module's results with expected ones, both as NumPy arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...core import Status, Tolerance

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

LARGE = 1e300
"""Replaces an infinite error, which JSON cannot represent."""
SLACK = 8.0
"""Factor of the default module's own error that is allowed in addition to the tolerance."""


@dataclass(frozen=True)
class Difference:
    """How results differ from expected ones."""

    status: Status = Status.OK
    message: str = ""
    max_abs_error: float = 0.0
    max_rel_error: float = 0.0
    """Over the largest expected magnitude."""
    rms_error: float = 0.0
    """Root mean square of the error over that of the expected values."""
    tolerance: float = 0.0


def compare(
    expected: Sequence[Array],
    actual: Sequence[Array],
    tolerances: Mapping[str, Tolerance],
    whose: str,
    slack: float = 0.0,
) -> Difference:
    """Compare result by result: |actual - expected| <= absolute * scale + relative * |expected| + slack * rms.

    The scale is the root mean square of the expected values, at most 1, as for every other kernel (docs/evaluation.md);
    `slack` is what the default module's own rounding adds, relative to the root mean square. Whole numbers must be
    equal. `whose` are the expected results, for the message.
    """
    if len(expected) != len(actual):
        return Difference(Status.WRONG_SHAPE, f"returned {len(actual)} results, {whose} are {len(expected)}")
    worst = Difference()
    for number, (wanted, got) in enumerate(zip(expected, actual, strict=True)):
        which = f"result {number}: " if len(expected) > 1 else ""
        difference = _compare(wanted, got, tolerances, f"{which}", whose, slack)
        if difference.status is not Status.OK:
            return difference
        worst = Difference(
            max_abs_error=max(difference.max_abs_error, worst.max_abs_error),
            max_rel_error=max(difference.max_rel_error, worst.max_rel_error),
            rms_error=max(difference.rms_error, worst.rms_error),
            tolerance=max(difference.tolerance, worst.tolerance),
        )
    return worst


def is_whole(array: Array) -> bool:
    """Return whether an array has whole numbers or flags; NumPy takes bf16 for neither these nor floats."""
    return array.dtype.kind in "iub"


def _compare(
    wanted: Array, got: Array, tolerances: Mapping[str, Tolerance], which: str, whose: str, slack: float
) -> Difference:
    import numpy as np

    if wanted.shape != got.shape:
        return Difference(Status.WRONG_SHAPE, f"{which}shape {got.shape}, {whose} have {wanted.shape}")
    if wanted.dtype != got.dtype:
        return Difference(Status.WRONG_DTYPE, f"{which}dtype {got.dtype}, {whose} have {wanted.dtype}")
    given = tolerances.get(str(wanted.dtype), Tolerance(0.0, 0.0))
    true, told = wanted.astype(np.float64), got.astype(np.float64)
    rms = math.sqrt(float(np.mean(np.square(true)))) if true.size else 0.0
    with np.errstate(invalid="ignore"):  # infinities are wrong anyway
        error = np.abs(told - true)
    exact = is_whole(wanted)
    allowed = 0.0 if exact else given.absolute * min(1.0, rms) + slack * rms
    wrong = ~(error <= allowed + (0.0 if exact else given.relative) * np.abs(true))
    finite = np.nan_to_num(error, nan=LARGE, posinf=LARGE)
    largest = min(float(finite.max(initial=0.0)), LARGE)
    scale = float(np.abs(true).max(initial=0.0))
    rel = min(largest / scale, LARGE) if scale else (LARGE if largest else 0.0)
    of_rms = min(math.sqrt(float(np.mean(np.square(np.minimum(finite, 1e150))))) / rms, LARGE) if rms else 0.0
    if not (count := int(wrong.sum())):
        return Difference(Status.OK, "", largest, rel, of_rms, given.relative)
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    message = (
        f"{which}{count} of {wanted.size} elements differ from {whose}; the first at {first}: {told[first]:.6g} "
        f"against {true[first]:.6g}; largest error {largest:.3g}"
    )
    return Difference(Status.WRONG_VALUE, message, largest, rel, of_rms, given.relative)
