"""Magnitudes of tensors and of their differences, computed in pieces that bound the memory use."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

CHUNK = 1 << 24
"""Elements that are compared at once: temporary tensors are no larger."""
CACHED = 1 << 16
"""Elements that stay in a processor's cache."""


def root_mean_square(tensor: Any) -> float:
    """Return the root mean square of the finite elements; 0.0 where there are none."""
    total = MeanSquare()
    for _, part, _ in chunks(tensor, tensor):
        total.add(part)
    return total.root


class MeanSquare:
    """The mean square of the finite elements of tensors that are added one after the other."""

    def __init__(self) -> None:
        self._total = 0.0
        self._count = 0

    def add(self, part: Any) -> None:
        """Add a tensor of fp32 or fp64."""
        import torch

        norm = float(torch.linalg.vector_norm(part))
        if 1e-15 < norm < 1e18:  # its square stays within fp32; NaN and Inf fail here
            self._total += norm**2
            self._count += part.numel()
            return
        finite = torch.isfinite(part)
        # Scaled, since squares of large numbers overflow fp32.
        large = float(torch.where(finite, part.abs(), 0.0).max()) if part.numel() else 0.0
        if large > 0:
            self._total += large**2 * float(torch.where(finite, part / large, 0.0).square().sum(dtype=torch.float64))
        self._count += int(finite.sum())

    @property
    def root(self) -> float:
        """The root of the mean; 0.0 before the first element."""
        return math.sqrt(self._total / self._count) if self._count else 0.0


class RelativeError:
    """Error against exact values that come part by part, relative to their root mean square."""

    def __init__(self) -> None:
        self._scale, self._error = MeanSquare(), MeanSquare()
        self._largest = 0.0

    def add(self, exact: Any, actual: Any) -> None:
        """Add a part of the exact values, and the same part of the actual ones."""
        import torch

        for _, wanted, got in pieces(exact, actual):
            # A copy also of fp64, since it becomes the error.
            wanted, error = wanted.double(), got.to(torch.float64, copy=True)
            self._scale.add(wanted)
            error -= wanted
            self._error.add(error)
            self._largest = max(self._largest, float(error.abs_().nan_to_num_(nan=0.0, posinf=0.0).max()))

    @property
    def root_mean_square(self) -> float:
        """0.0 where all exact values are zero."""
        return self._error.root / self._scale.root if self._scale.root else 0.0

    @property
    def largest(self) -> float:
        """The largest finite error; 0.0 where all exact values are zero."""
        return self._largest / self._scale.root if self._scale.root else 0.0


def relative_error(exact: Any, actual: Any) -> tuple[float, float]:
    """Return root mean square and largest error, both over the root mean square of the exact values."""
    found = RelativeError()
    found.add(exact, actual)
    return found.root_mean_square, found.largest


def relative_difference(expected: Any, actual: Any) -> float:
    """Return the root mean square of the difference over that of the expected values, computed in fp32.

    NaN where one of them is not finite, or too large. On a CPU a piece at a time, so that it stays in the cache.
    """
    import torch

    wanted, got = as_real(expected).detach().reshape(-1), as_real(actual).reshape(-1)
    size = CACHED if wanted.device.type == "cpu" else CHUNK
    norms = [
        torch.stack([torch.linalg.vector_norm(wide(second) - wide(first)), torch.linalg.vector_norm(wide(first))])
        for first, second in zip(wanted.split(size), got.split(size), strict=True)
    ]
    error, scale = torch.linalg.vector_norm(torch.stack(norms), dim=0).tolist()
    return error / scale if scale else math.inf


def as_real(value: Any) -> Any:
    """Return a complex tensor with its parts along one more dimension; anything else unchanged."""
    import torch

    is_complex = isinstance(value, torch.Tensor) and value.is_complex()
    return torch.view_as_real(value.resolve_conj()) if is_complex else value


def pieces(first: Any, second: Any) -> Iterator[tuple[int, Any, Any]]:
    """Yield the same elements of two tensors of one shape, a bounded number at a time, and the first one's index."""
    flat, beside = first.detach().reshape(-1), second.detach().reshape(-1)
    for start in range(0, flat.numel(), CHUNK):
        yield start, flat[start : start + CHUNK], beside[start : start + CHUNK]


def chunks(expected: Any, actual: Any) -> Iterator[tuple[int, Any, Any]]:
    """Yield what `pieces` does, as `wide` returns them."""
    for start, wanted, got in pieces(expected, actual):
        yield start, wide(wanted), wide(got)


def wide(tensor: Any) -> Any:
    """Return a tensor in fp32 if it is a floating one of at most 32 bits, otherwise in fp64."""
    import torch

    narrow = tensor.is_floating_point() and tensor.dtype != torch.float64
    return tensor.to(torch.float32 if narrow else torch.float64)
