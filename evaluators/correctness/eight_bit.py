"""Floating types of eight bits, for which torch has hardly any operators: what computes with them widens them first."""

from __future__ import annotations

from typing import Any


def widened(value: Any) -> Any:
    """Return a floating tensor of eight bits in fp32; anything else unchanged."""
    import torch

    if isinstance(value, torch.Tensor) and value.is_floating_point() and value.element_size() == 1:
        return value.float()
    return value


def narrowed(value: Any, dtype: Any) -> Any:
    """Return the tensor in a dtype; eight bits take the nearest finite number, not NaN or infinity."""
    import torch

    if dtype.itemsize == 1 and value.dtype != dtype:
        limits = torch.finfo(dtype)
        value = value.clamp(limits.min, limits.max)
    return value.to(dtype)
