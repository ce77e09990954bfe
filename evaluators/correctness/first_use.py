"""Uses torch's kernels once before: CUDA loads each of them at its first use, which takes some milliseconds."""

from __future__ import annotations

from typing import Any

from .inputs import Buffers
from .side_effects import SideEffects, poison

DTYPES = ("float32", "float16", "bfloat16")


def load_kernels(device: str) -> None:
    """Draw, copy, scale, digest and spoil tensors of a few elements, as checks and timings do with inputs; opens the
    device."""
    import torch

    for name in DTYPES:
        dtype = getattr(torch, name)
        drawn: list[Any] = [make(4, 8, dtype=dtype, device=device) for make in (torch.randn, torch.rand, torch.ones)]
        buffers = Buffers()
        given = buffers.fill(drawn)
        buffers.scaled(drawn, torch.ones(64, device=device))
        effects = SideEffects(given)
        poison(given)
        effects.of(given)
        torch.relu(given[0])
