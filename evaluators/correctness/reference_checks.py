"""Requirements on a reference: deterministic, finite tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .eight_bit import widened
from .errors import pieces, relative_error

REPEATS = 1e-3
"""Two calls on equal inputs may differ by this share of the result, as the order of atomic additions may."""


class UnusableReferenceError(Exception):
    """A reference that cannot be compared with; the message says what to change."""


def require_reference(first: Sequence[Any], again: Sequence[Any]) -> None:
    """Raise `UnusableReferenceError` unless two calls with equal inputs and weights returned equal finite tensors."""
    import torch

    for result, repeated in zip(first, again, strict=True):
        if not isinstance(result, torch.Tensor):
            raise UnusableReferenceError(
                f"forward returns {type(result).__name__}; it must return a tensor, or a tuple or list of tensors"
            )
        if result.shape != repeated.shape:
            raise UnusableReferenceError("forward returns other shapes at a second call on the same inputs")
        if not result.is_floating_point() or not result.numel():
            continue
        if not any(bool(torch.isfinite(widened(part)).any()) for _, part, _ in pieces(result, result)):
            raise UnusableReferenceError(
                "forward returns NaN or infinity everywhere, which says nothing about a kernel; change the inputs"
            )
        if relative_error(repeated, result)[0] > REPEATS:
            raise UnusableReferenceError(
                "forward returns something else at a second call on the same inputs (dropout in training mode?)"
            )


def same_result(first: Sequence[Any], again: Sequence[Any]) -> bool:
    """Return whether two results are the same but for the order of sums."""
    import torch

    return all(
        isinstance(value, torch.Tensor)
        and value.shape == other.shape
        and (
            relative_error(value.detach(), other)[0] <= REPEATS
            if value.is_floating_point()
            else torch.equal(value, other)
        )
        for value, other in zip(first, again, strict=True)
    )


def same_special_values(first: Sequence[Any], again: Sequence[Any]) -> bool:
    """Return whether two results on equal inputs have NaN and infinity in the same places, and finite numbers too."""
    import torch

    for result, repeated in zip(map(widened, first), map(widened, again), strict=True):
        if not isinstance(result, torch.Tensor) or not torch.equal(result.isnan(), repeated.isnan()):
            return False
        if not torch.equal(result.isinf(), repeated.isinf()) or not bool(torch.isfinite(result).any()):
            return False
    return True
