"""What a reference must be so that anything can be compared with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .correctness import relative_error

REPEATS = 1e-3
"""Two calls on equal inputs may differ by the order of atomic additions, by no more than this share of the result."""


class Unfit(Exception):
    """A reference that no candidate can be compared with; the message says what to change."""


def require_reference(first: Sequence[Any], again: Sequence[Any]) -> None:
    """Raise `Unfit` unless both calls, on equal inputs and weights, returned the same tensors with numbers in them."""
    import torch

    for one, other in zip(first, again, strict=True):
        if not isinstance(one, torch.Tensor):
            raise Unfit(f"forward returns {type(one).__name__}; it must return a tensor, or a tuple or list of tensors")
        if one.shape != other.shape:
            raise Unfit("forward returns other shapes at a second call on the same inputs")
        if not one.is_floating_point() or not one.numel():
            continue
        if not bool(torch.isfinite(one.float()).any()):
            raise Unfit(
                "forward returns NaN or infinity everywhere, which says nothing about a kernel; change the inputs"
            )
        if relative_error(other.detach().double(), one)[0] > REPEATS:
            raise Unfit(
                "forward returns something else at a second call on the same inputs (dropout in training mode?)"
            )
