"""Requirements on a reference: deterministic, finite tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .compare import pieces, relative_error
from .eight_bit import widened

REPEATS = 1e-3
"""Two calls on equal inputs may differ by this share of the result, as the order of atomic additions may."""


class UnusableReference(Exception):
    """A reference that cannot be compared with; the message says what to change."""


def require_reference(first: Sequence[Any], again: Sequence[Any]) -> None:
    """Raise `UnusableReference` unless both calls, on equal inputs and weights, returned the same finite tensors."""
    import torch

    for one, other in zip(first, again, strict=True):
        if not isinstance(one, torch.Tensor):
            raise UnusableReference(
                f"forward returns {type(one).__name__}; it must return a tensor, or a tuple or list of tensors"
            )
        if one.shape != other.shape:
            raise UnusableReference("forward returns other shapes at a second call on the same inputs")
        if not one.is_floating_point() or not one.numel():
            continue
        if not any(bool(torch.isfinite(widened(part)).any()) for _, part, _ in pieces(one, one)):
            raise UnusableReference(
                "forward returns NaN or infinity everywhere, which says nothing about a kernel; change the inputs"
            )
        if relative_error(other, one)[0] > REPEATS:
            raise UnusableReference(
                "forward returns something else at a second call on the same inputs (dropout in training mode?)"
            )


def same_result(first: Sequence[Any], again: Sequence[Any]) -> bool:
    """Return whether two results are the same but for the order of sums."""
    import torch

    return all(
        isinstance(one, torch.Tensor)
        and one.shape == other.shape
        and (relative_error(one.detach(), other)[0] <= REPEATS if one.is_floating_point() else torch.equal(one, other))
        for one, other in zip(first, again, strict=True)
    )


def same_special_values(first: Sequence[Any], again: Sequence[Any]) -> bool:
    """Return whether two results on equal inputs have NaN and infinity in the same places, and finite numbers too."""
    import torch

    for one, other in zip(map(widened, first), map(widened, again), strict=True):
        if not isinstance(one, torch.Tensor) or not torch.equal(one.isnan(), other.isnan()):
            return False
        if not torch.equal(one.isinf(), other.isinf()) or not bool(torch.isfinite(one).any()):
            return False
    return True
