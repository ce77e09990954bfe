"""Comparing a candidate's outputs with the reference's, in the reference's process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core import Status
from .channel import Message

DEFAULT_TOLERANCE = 0.0


def compare(
    expected: Sequence[Any], described: Sequence[Message], path: Path, tolerances: Mapping[str, float]
) -> Message:
    """Compare tensor by tensor; the first difference in kind decides the status.

    `described` says how the candidate's raw bytes in `path` are to be read. Returns status, message,
    max_abs_error, max_rel_error (over the largest magnitude of the reference) and tolerance.
    """
    import torch

    worst: Message = {
        "status": Status.OK,
        "message": "",
        "max_abs_error": 0.0,
        "max_rel_error": 0.0,
        "tolerance": 0.0,
    }
    if len(described) != len(expected):
        return failed(Status.WRONG_SHAPE, f"returned {len(described)} outputs, the reference {len(expected)}")
    offset = 0
    for number, (wanted, got) in enumerate(zip(expected, described, strict=True)):
        which = f"output {number}: " if len(expected) > 1 else ""
        if got["shape"] is None:
            return failed(Status.WRONG_SHAPE, f"{which}returned {got['type']}, not a tensor")
        if list(wanted.shape) != got["shape"]:
            return failed(Status.WRONG_SHAPE, f"{which}shape {got['shape']}, the reference has {list(wanted.shape)}")
        dtype = str(wanted.dtype).removeprefix("torch.")
        if got["dtype"] != dtype:
            return failed(Status.WRONG_DTYPE, f"{which}dtype {got['dtype']}, the reference has {dtype}")
        size = wanted.numel() * wanted.element_size()
        if path.stat().st_size < offset + size:
            return failed(Status.RUNTIME_ERROR, f"{which}the outputs were not written whole")
        data = torch.from_file(str(path), shared=False, size=offset + size, dtype=torch.uint8)[offset:]
        actual = data.clone().view(wanted.dtype).reshape(wanted.shape)
        offset += size
        one = compare_tensor(wanted.detach().cpu(), actual, tolerances.get(dtype, DEFAULT_TOLERANCE), which)
        if one["status"] != Status.OK:
            return one
        worst = {
            **one,
            **{key: max(one[key], worst[key]) for key in ("max_abs_error", "max_rel_error", "tolerance")},
        }
    return worst


def compare_tensor(expected: Any, actual: Any, tolerance: float, which: str = "") -> Message:
    """|actual - expected| <= tolerance * (1 + |expected|) everywhere; NaN and Inf only where expected."""
    import torch

    expected64 = expected.to(torch.float64)
    actual64 = actual.to(torch.float64)
    finite = torch.isfinite(expected64)
    unequal = (actual64 - expected64).abs()
    close = torch.where(
        finite,
        unequal <= tolerance * (1 + expected64.abs()),
        (actual64 == expected64) | (actual64.isnan() & expected64.isnan()),
    )
    errors = torch.where(finite, unequal, torch.zeros_like(unequal))
    errors = torch.nan_to_num(errors, nan=float("inf"))
    max_abs = min(float(errors.max()) if errors.numel() else 0.0, 1e300)
    scale = float(expected64[finite].abs().max()) if bool(finite.any()) else 0.0
    max_rel = max_abs / scale if scale > 0 else (0.0 if max_abs == 0 else 1e300)
    figures = {"max_abs_error": max_abs, "max_rel_error": min(max_rel, 1e300), "tolerance": tolerance}
    if bool(close.all()):
        return {"status": Status.OK, "message": "", **figures}
    wrong = int((~close).sum())
    index = tuple(int(i) for i in torch.nonzero(~close)[0]) if close.dim() else ()
    message = (
        f"{which}{wrong} of {close.numel()} elements differ by more than {tolerance:g}; the first at {index}: "
        f"{float(actual64[index]):.6g} against {float(expected64[index]):.6g}; largest error {max_abs:.3g}"
    )
    return {"status": Status.WRONG_VALUE, "message": message, **figures}


def failed(status: Status, message: str) -> Message:
    """A verdict without error figures."""
    return {"status": status, "message": message}
