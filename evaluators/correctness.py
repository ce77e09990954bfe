"""Comparing a candidate's outputs with the reference's, in the reference's process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core import Status
from .channel import Message
from .handoff import Outputs, Unreadable

DEFAULT_TOLERANCE = 0.0
CHUNK = 1 << 24
LARGE = 1e300
"""Stands for an infinite error, which JSON cannot hold."""


def compare(
    expected: Sequence[Any], described: Sequence[Message], path: Path, tolerances: Mapping[str, float]
) -> Message:
    """Compare tensor by tensor; the first difference in kind decides the status.

    `described` says how the candidate's outputs are to be read, from `path` where they are not shared. Returns
    status, message, max_abs_error, max_rel_error (over the largest magnitude of the reference) and tolerance.
    """
    worst: Message = {
        "status": Status.OK,
        "message": "",
        "max_abs_error": 0.0,
        "max_rel_error": 0.0,
        "tolerance": 0.0,
    }
    if len(described) != len(expected):
        return failed(Status.WRONG_SHAPE, f"returned {len(described)} outputs, the reference {len(expected)}")
    outputs = Outputs(path)
    for number, (wanted, got) in enumerate(zip(expected, described, strict=True)):
        which = f"output {number}: " if len(expected) > 1 else ""
        if got["shape"] is None:
            return failed(Status.WRONG_SHAPE, f"{which}returned {got['type']}, not a tensor")
        if list(wanted.shape) != got["shape"]:
            return failed(Status.WRONG_SHAPE, f"{which}shape {got['shape']}, the reference has {list(wanted.shape)}")
        dtype = str(wanted.dtype).removeprefix("torch.")
        if got["dtype"] != dtype:
            return failed(Status.WRONG_DTYPE, f"{which}dtype {got['dtype']}, the reference has {dtype}")
        try:
            actual = outputs.next(got, wanted)
        except Unreadable as error:
            return {**failed(Status.RUNTIME_ERROR, f"{which}{error}"), "unreadable": True}
        one = compare_tensor(wanted.detach(), actual, tolerances.get(dtype, DEFAULT_TOLERANCE), which)
        if one["status"] != Status.OK:
            return one
        worst = {
            **one,
            **{key: max(one[key], worst[key]) for key in ("max_abs_error", "max_rel_error", "tolerance")},
        }
    return worst


def compare_tensor(expected: Any, actual: Any, tolerance: float, which: str = "") -> Message:
    """|actual - expected| <= tolerance * (1 + |expected|) everywhere; NaN and Inf only where expected.

    Works in fp64, on the tensors' own device, in chunks that bound the memory it takes.
    """
    import torch

    flat, other = expected.reshape(-1), actual.reshape(-1)
    wrong, max_abs, scale = 0, 0.0, 0.0
    first: tuple[int, float, float] | None = None
    for start in range(0, flat.numel(), CHUNK):
        wanted, got = flat[start : start + CHUNK].to(torch.float64), other[start : start + CHUNK].to(torch.float64)
        finite = torch.isfinite(wanted)
        error = torch.where(finite, (got - wanted).abs(), 0.0).nan_to_num(nan=LARGE, posinf=LARGE)
        same = (got == wanted) | (got.isnan() & wanted.isnan())
        close = torch.where(finite, error <= tolerance * (1 + wanted.abs()), same)
        max_abs = max(max_abs, float(error.max()))
        scale = max(scale, float(torch.where(finite, wanted.abs(), 0.0).max()))
        misses = torch.nonzero(~close).reshape(-1)
        wrong += misses.numel()
        if first is None and misses.numel():
            at = int(misses[0])
            first = (start + at, float(got[at]), float(wanted[at]))
    max_rel = max_abs / scale if scale > 0 else (0.0 if max_abs == 0 else LARGE)
    figures = {"max_abs_error": max_abs, "max_rel_error": min(max_rel, LARGE), "tolerance": tolerance}
    if first is None:
        return {"status": Status.OK, "message": "", **figures}
    position = tuple(int(i) for i in torch.unravel_index(torch.tensor(first[0]), expected.shape))
    message = (
        f"{which}{wrong} of {flat.numel()} elements differ by more than {tolerance:g}; the first at {position}: "
        f"{first[1]:.6g} against {first[2]:.6g}; largest error {max_abs:.3g}"
    )
    return {"status": Status.WRONG_VALUE, "message": message, **figures}


def failed(status: Status, message: str) -> Message:
    """A verdict without error figures."""
    return {"status": status, "message": message}
