"""Compares a candidate's outputs with the reference's, in the reference's process."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core import Status, Tolerance
from ..workers.channel import Message
from ..workers.tensor_ipc import Outputs, UnreadableTensorError
from .errors import as_real, chunks, pieces, root_mean_square, wide
from .unmatched import uncomputed

OUTPUTS_TOLD = 4
"""Outputs that a message describes where their number is wrong."""
EXACT = Tolerance(0.0, 0.0)
LARGE = EXACT.cap
"""Replaces an infinite error, which JSON cannot represent."""


@dataclass(frozen=True)
class Allowed:
    """The allowed difference: |actual - expected| <= absolute * scale + relative * |expected| + slack.

    The scale is the root mean square of the expected values, at most 1: so zeros do not pass for outputs that are small
    altogether. Inputs of another distribution give other magnitudes, and the scale is `unbounded` then.
    """

    tolerances: Mapping[str, Tolerance]
    slack: float = 0.0
    """Tolerance for torch's own rounding (`fp64.Fp64Comparison.slack`), over the root mean square of the result."""
    unbounded: bool = False
    any_order: bool = False
    """Whether a result may have other strides than the reference's, as a user's function may."""
    forgiven: Callable[[int, Any, Any], Any] | None = None
    """Takes an output's number, the expected and the actual values; returns the latter with the expected ones where
    rounding alone may be the cause of the difference. Called where the comparison fails."""
    excused: Callable[[int, Any, Any], bool] | None = None
    """Takes the same of an input that the reference writes to; returns whether the user's function as it stands has
    such errors."""
    same: Mapping[int, int] = field(default_factory=dict)
    """By the place of an input that the reference writes to, among what is compared: the output that it is, too."""
    rows: Callable[[int, Any, Any, str], Message | None] | None = None
    """Compares a floating output row by row instead, given its number, the expected and the actual values, and how a
    message begins; None where that is not possible."""

    def of(self, expected: Any) -> Tolerance:
        """Return the tolerance for one output; the absolute one applies where the reference is zero."""
        tolerance = self.tolerances.get(dtype_name(expected), EXACT)
        if not expected.is_floating_point():
            return tolerance
        rms = root_mean_square(expected)
        scale = rms if self.unbounded else min(1.0, rms)
        return tolerance._replace(absolute=tolerance.absolute * scale + self.slack * rms)


def compare(
    expected: Sequence[Any],
    described: Sequence[Message],
    outputs: Outputs,
    allowed: Allowed,
    written: Sequence[int] = (),
) -> Message:
    """Compare tensor by tensor; the first difference in shape or dtype decides the status.

    `described` says how to read the candidate's outputs, from a file where memory is not shared; the last of them are
    the inputs with the numbers in `written`, which the reference writes to. Returns status,
    message, max_abs_error, max_rel_error (relative to the largest magnitude of the reference), tolerance (the relative
    one), absolute_tolerance, and as `actual` the outputs where shape and dtype match.
    """
    returned = len(expected) - len(written)
    if len(described) != len(expected):
        own, theirs = described[: len(described) - len(written)], expected[:returned]
        found = _told([(item["shape"], item["dtype"]) for item in own])
        wanted = _told([(list(item.shape), dtype_name(item)) for item in theirs])
        return failed(Status.WRONG_SHAPE, f"returned {found}, the reference {wanted}")
    worst: Message = {"max_abs_error": 0.0, "max_rel_error": 0.0, "tolerance": 0.0, "absolute_tolerance": 0.0}
    actuals: list[Any] = []
    for number, (wanted, got) in enumerate(zip(expected, described, strict=True)):
        which = f"output {number}: " if returned > 1 else ""
        if number >= returned:
            which = f"input {written[number - returned]}, which the reference writes to: "
        if (different := _different_kind(wanted, got, allowed.any_order)) is not None:
            return failed(different[0], which + different[1])
        try:
            actuals.append(outputs.next(got, wanted))
        except UnreadableTensorError as error:
            return {**failed(Status.RUNTIME_ERROR, f"{which}{error}"), "unreadable": True}
        real = as_real(wanted.detach())
        nominal = {"absolute_tolerance": allowed.tolerances.get(dtype_name(real), EXACT).absolute}
        comparison = _compare_one(number, real, as_real(actuals[-1]), allowed, which, number < returned) | nominal
        if comparison["status"] != Status.OK:
            return {**comparison, "actual": actuals}
        worst = {key: max(comparison[key], worst[key]) for key in worst}
    return {"status": Status.OK, "message": "", **worst, "actual": actuals}


def _compare_one(number: int, expected: Any, actual: Any, allowed: Allowed, which: str, returned: bool) -> Message:
    """Compare a tensor; what is not an output, but an input that the reference writes to, has the plain tolerance, or
    what the start does."""
    number, returned = allowed.same.get(number, number), returned or number in allowed.same
    if returned and allowed.rows is not None and expected.is_floating_point():
        by_rows = allowed.rows(number, expected, actual, which)
        if by_rows is not None:
            return by_rows
    found = compare_tensor(expected, actual, allowed.of(expected), which)
    if found["status"] != Status.OK and allowed.forgiven is not None and returned:
        again = compare_tensor(expected, allowed.forgiven(number, expected, actual), allowed.of(expected), which)
        found |= {"status": again["status"], "message": again["message"]}
    elif found["status"] != Status.OK and allowed.excused is not None and allowed.excused(number, expected, actual):
        found |= {"status": Status.OK, "message": ""}
    return found


def _told(outputs: Sequence[tuple[Any, Any]]) -> str:
    """Return how many outputs there are, and the shapes and dtypes of the first ones."""
    shown = ", ".join("no tensor" if shape is None else f"{dtype} {shape}" for shape, dtype in outputs[:OUTPUTS_TOLD])
    more = ", ..." if len(outputs) > OUTPUTS_TOLD else ""
    return f"{len(outputs)} output{'s' if len(outputs) != 1 else ''}{f' ({shown}{more})' if shown else ''}"


def _different_kind(wanted: Any, got: Message, any_order: bool) -> tuple[Status, str] | None:
    """Return the status and message of a difference that shows before the values are compared."""
    if got["shape"] is None:
        return Status.WRONG_SHAPE, f"returned {got['type']}, not a tensor"
    if list(wanted.shape) != got["shape"]:
        return Status.WRONG_SHAPE, f"shape {got['shape']}, the reference has {list(wanted.shape)}"
    if got["dtype"] != dtype_name(wanted):
        return Status.WRONG_DTYPE, f"dtype {got['dtype']}, the reference has {dtype_name(wanted)}"
    if got["device"] != wanted.device.type:
        return Status.WRONG_SHAPE, f"lies on the {got['device']}, the reference's on the {wanted.device.type}"
    if not got["stored"]:
        return Status.WRONG_SHAPE, "has no memory of its own for every element (an expanded, sparse or lazy tensor)"
    if wanted.is_contiguous() and not any_order and not _in_order(got):
        return Status.WRONG_SHAPE, (
            f"strides {got['strides']}: its axes lie in memory in another order than those of the reference's result, "
            "which is contiguous; write it in that order, or whoever reads it does the rest of the work"
        )
    return None


def _in_order(got: Message) -> bool:
    """Return whether the axes lie in memory in their order, perhaps with gaps."""
    strides = [stride for extent, stride in zip(got["shape"], got["strides"], strict=False) if extent > 1]
    return len(got["strides"]) == len(got["shape"]) and strides == sorted(strides, reverse=True)


def compare_tensor(expected: Any, actual: Any, tolerance: Tolerance, which: str = "") -> Message:
    """|actual - expected| <= absolute + relative * |expected| for as many elements as the tolerance demands, by default
    all; NaN and Inf only where expected.

    Computed in fp32, or in fp64 for fp64 tensors; on their own device, in chunks that bound the memory use.
    """
    import torch

    absolute, relative = tolerance.absolute, tolerance.relative
    if tolerance == EXACT and not expected.is_floating_point():
        return _compare_exactly(expected, actual, which)
    wrong, max_abs, scale, definite = 0, 0.0, 0.0, True
    first: tuple[int, float, float] | None = None
    for start, wanted, got in chunks(expected, actual):
        # Most results are finite and correct, and few passes over the memory show it.
        error, reach = (got - wanted).abs_(), wanted.abs()
        near = (error <= reach.mul(relative).add_(absolute)).all()
        # Together: on a GPU each of them alone would be waited for.
        largest, reached, passed = torch.stack([error.max(), reach.max(), near.to(error.dtype)]).tolist()
        if math.isfinite(largest) and passed:
            max_abs, scale = max(max_abs, largest), max(scale, reached)
            continue
        finite = torch.isfinite(wanted)
        error = torch.where(finite, (got - wanted).abs(), 0.0).nan_to_num(nan=math.inf)
        same = (got == wanted) | (got.isnan() & wanted.isnan())
        close = torch.where(finite, error <= absolute + relative * wanted.abs(), same)
        max_abs = max(max_abs, min(float(error.max()), LARGE))
        scale = max(scale, float(torch.where(finite, wanted.abs(), 0.0).max()))
        missed = int((~close).sum())
        wrong += missed
        definite = definite and bool((finite | same).all())
        if first is None and missed:
            at = int(torch.nonzero(~close)[0, 0])
            first = (start + at, float(got[at]), float(wanted[at]))
    max_rel = max_abs / scale if scale > 0 else (0.0 if max_abs == 0 else LARGE)
    metrics = {"max_abs_error": max_abs, "max_rel_error": min(max_rel, LARGE), "tolerance": relative}
    may_differ = (1 - tolerance.matched) * expected.numel()
    few = definite and max_abs < tolerance.cap and wrong <= may_differ
    if first is None or (few and not (left_out := uncomputed(expected, actual, tolerance))):
        return {"status": Status.OK, "message": "", **metrics}
    if few:
        return {"status": Status.WRONG_VALUE, "message": f"{which}{left_out}", **metrics}
    position = _position(first[0], expected.shape)
    message = (
        f"{which}{wrong} of {expected.numel()} elements differ by more than {absolute:.2g} + {relative:g} of the "
        f"value; the first at {position}: {first[1]:.6g} against {first[2]:.6g}; largest error {max_abs:.3g}"
        f"{f'; {may_differ:.0f} may' if 0 < may_differ < wrong else ''}"
    )
    return {"status": Status.WRONG_VALUE, "message": message, **metrics}


def _compare_exactly(expected: Any, actual: Any, which: str) -> Message:
    """Compare integers and flags exactly: fp64 does not represent every int64."""

    wrong, first = 0, None
    error = scale = 0.0
    for start, wanted, got in pieces(expected, actual):
        scale = max(scale, float(wanted.double().abs().max()))
        different = wanted != got
        if missed := int(different.sum()):
            wrong += missed
            error = max(error, float((got.double() - wanted.double()).abs().max()))
            if first is None:
                at = int(different.nonzero()[0, 0])
                first = start + at, got[at].item(), wanted[at].item()
    if first is None:
        return {"status": Status.OK, "message": "", "max_abs_error": 0.0, "max_rel_error": 0.0, "tolerance": 0.0}
    position = _position(first[0], expected.shape)
    return {
        "status": Status.WRONG_VALUE,
        "message": f"{which}{wrong} of {expected.numel()} elements differ; the first at {position}: "
        f"{first[1]} against {first[2]}",
        "max_abs_error": error,
        "max_rel_error": error / scale if scale else LARGE,
        "tolerance": 0.0,
    }


def _position(index: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the indices of an element. Torch's own function imports its symbolic shapes, which takes seconds."""
    import numpy

    return tuple(int(item) for item in numpy.unravel_index(index, tuple(shape)))


def close_everywhere(expected: Any, actual: Any, tolerance: Tolerance) -> bool:
    """Return whether `compare_tensor` would pass; `actual` may be a number. Stops at the first chunk that differs."""
    import torch

    absolute, relative = tolerance.absolute, tolerance.relative
    sizes = (1 << 12, 1 << 20)  # most trivial outputs differ at once
    flat = expected.detach().reshape(-1)
    other = actual.reshape(-1) if isinstance(actual, torch.Tensor) else None
    start = 0
    while start < flat.numel():
        size = sizes[0] if start == 0 else sizes[1]
        wanted = wide(flat[start : start + size])
        got = wide(other[start : start + size]) if other is not None else actual
        near = (got - wanted).abs() <= absolute + relative * wanted.abs()
        if not bool((near & wanted.isfinite()).all()):
            return False
        start += size
    return True


def failed(status: Status, message: str) -> Message:
    """Return a failed comparison without errors."""
    return {"status": status, "message": message}


def dtype_name(tensor: Any) -> str:
    """'float32': the dtype without torch's prefix."""
    return str(tensor.dtype).removeprefix("torch.")
