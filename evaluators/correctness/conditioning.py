"""Where a result is decided by rounding: rows of an output in which the reference itself is ill-conditioned.

A normalization of a constant row, for one, divides the rounding error of its mean by the root of its epsilon. Torch's
error may be zero there, when its order of summation happens to be exact, so its conditioning is measured: in fp64, on
inputs that are changed by as much as the tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..workers.modules import outputs_of
from .eight_bit import narrowed, widened
from .errors import RelativeError, as_real, relative_error, root_mean_square

ROUNDING = 3e-6
"""Relative change of the inputs that is a little more than rounding to fp32 and summing do."""
DRAWS = 2
"""Perturbations whose changes are averaged."""
NUDGES = 8
"""Perturbations by which an element that rounding decides is found: each shows about half of them."""
ROW = 64
"""A row has at least this many elements: the last axes of an output, as many as it takes."""
AMPLIFIED = 8.0
"""A row is ill-conditioned if a relative change of the inputs reaches it at least this many times as large."""
AS_EXACT = 1.5
"""Multiple of the expected values' error that is still about the same."""
FEW = 0.25
"""Share of the rows that rounding to 16 bits may change altogether."""
ALLOWED = 4.0
"""Multiple of the change (root mean square of the row) that is allowed: a candidate's error need not be random."""


def amplified_error(
    exact: Callable[[Sequence[Any]], Sequence[Any]], inputs: Sequence[Any], output: int, relative: float
) -> Any:
    """Return the error that rounding may cause in each element of an output; zero where it is well-conditioned.

    `exact` is the reference in fp64. Errors in intermediate results act like a relative change of the inputs, by no
    more than the relative tolerance. The result broadcasts to the output's rows, shape (rows, 1).
    """
    import torch

    expected = as_real(exact(inputs)[output])
    rows = expected.reshape(-1, _row_length(expected.shape))
    squares = torch.zeros(len(rows), 1, dtype=torch.float64, device=rows.device)
    for number in range(DRAWS):
        changed = as_real(exact([_changed(value, relative, number) for value in inputs])[output])
        squares += (changed.reshape(rows.shape) - rows).square().mean(dim=1, keepdim=True) / DRAWS
    change = squares.sqrt()
    size = rows.square().mean(dim=1, keepdim=True).sqrt().clamp(min=root_mean_square(expected))
    return torch.where(change > AMPLIFIED * relative * size, ALLOWED * change, 0.0)


def is_steady(
    model: Callable[..., Any], inputs: Sequence[Any], expected: Sequence[Any], allowed: Sequence[float]
) -> bool:
    """Return whether outputs change by no more than `allowed` (relative to each one's root mean square) where the
    inputs change by a little more than rounding does.

    Large numbers turn a clamped product into its sign, which rounding decides where the product is nearly zero.
    """
    changed = outputs_of(model(*map(_nudged, inputs)))
    for output, moved, limit in zip(expected, changed, allowed, strict=True):
        error = RelativeError()
        error.add(output, moved)
        if error.largest > limit:
            return False
    return True


def forgive(expected: Any, actual: Any, error: Any) -> Any:
    """Return `actual` with the expected values where it is within `error` of them."""
    import torch

    rows = expected.reshape(len(error), -1)
    got = actual.reshape(rows.shape)
    near = (got.double() - rows.double()).abs() <= error
    return torch.where(near & (error > 0), rows, got).reshape(expected.shape)


def rows_are_close(exact: Any, expected: Any, actual: Any, times: float, floor: float) -> bool:
    """Return whether few rows, along the last axis, have errors above this multiple of the largest expected one.

    A few may, as in attention, where rounding decides which of two scores is the larger one. Errors are root mean
    squares against `exact`, in fp64, relative to the row or to the whole result, whichever is larger; `floor` is
    allowed in any case. Rows in which the expected values are not finite do not count.
    """
    rows = exact.double().reshape(-1, exact.shape[-1] if exact.dim() else 1)
    size = rows.square().mean(dim=1).sqrt().clamp(min=root_mean_square(exact))
    theirs, own = (
        ((item.double().reshape(rows.shape) - rows).square().mean(dim=1).sqrt() / size).nan_to_num(
            nan=math.inf, posinf=math.inf
        )
        for item in (expected, actual)
    )
    counted = theirs < math.inf
    if not counted.any():
        return False
    allowed = max(times * float(theirs[counted].max()), floor)
    return int((own[counted] > allowed).sum()) <= max(1, int(FEW * int(counted.sum())))


def is_as_exact(exact: Any, expected: Any, actual: Any) -> bool:
    """Return whether the actual values are about as near to `exact`, in fp64, as the expected ones."""
    import torch

    (theirs, their_largest), (own, own_largest) = relative_error(exact, expected), relative_error(exact, actual)
    finite = bool((torch.isfinite(widened(actual)) & torch.isfinite(widened(expected))).all())
    return finite and own <= AS_EXACT * theirs and own_largest <= AS_EXACT * their_largest


def settled(
    reference: Callable[[Sequence[Any]], Any], inputs: Sequence[Any], expected: Any, actual: Any, limit: float
) -> Any:
    """Return `actual` with the expected values where rounding alone decides what the reference returns.

    `reference` returns one output. An element counts if a change of the inputs that is a little more than rounding
    changes it by more than `limit`, relative to the output's root mean square.
    """
    import torch

    bound = limit * root_mean_square(expected)
    loose = torch.zeros_like(expected, dtype=torch.bool)
    for seed in range(NUDGES):
        changed = as_real(reference([_nudged(value, seed) for value in inputs]))
        loose |= (changed.double() - expected.double()).abs() > bound
    return torch.where(loose, expected, actual)


def _row_length(shape: Sequence[int]) -> int:
    length = 1
    for extent in reversed(shape):
        if length >= ROW:
            break
        length *= extent
    return max(length, 1)


def _nudged(value: Any, seed: int = 0) -> Any:
    """Return a floating tensor with each element changed by `ROUNDING` of itself, in its own dtype."""
    import torch

    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    generator = torch.Generator(value.device).manual_seed(seed)
    factors = torch.randint(0, 2, value.shape, generator=generator, device=value.device, dtype=torch.float32)
    return narrowed(factors.mul_(2 * ROUNDING).add_(1 - ROUNDING) * widened(value), value.dtype)


def _changed(value: Any, relative: float, seed: int) -> Any:
    """Return a floating tensor in fp64, each element changed by about the relative amount."""
    import torch

    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    generator = torch.Generator(value.device).manual_seed(seed)
    noise = torch.randn(value.shape, generator=generator, device=value.device, dtype=torch.float64)
    return value.double() * (1 + relative * noise)
