"""Puts a convolution's output together from parts that are computed separately."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def interleaved(parts: Any, begins: Sequence[int], sizes: Sequence[int], bias: Any) -> Any:
    """Return (batch, channels, *sizes) of parts: (batch, channels, *residues, *counts).

    Along an axis the element `i * residues + r` is the i-th of residue r; `sizes` of them are taken from `begins` on.
    """
    import torch

    axes = len(sizes)
    whole = parts.permute(0, 1, *(item for axis in range(2, 2 + axes) for item in (axis + axes, axis)))
    for axis, (begin, size) in enumerate(zip(begins, sizes, strict=True), 2):
        whole = whole.flatten(axis, axis + 1)
        if (begin, size) != (0, whole.shape[axis]):
            whole = torch.ops.aten.slice.Tensor(whole, axis, begin, begin + size)
    if not whole.is_contiguous():
        whole = whole.clone(memory_format=torch.contiguous_format)
    return whole if bias is None else whole + bias.reshape(1, -1, *[1] * axes)
