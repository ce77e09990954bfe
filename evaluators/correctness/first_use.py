"""Uses torch's kernels for a first time: CUDA loads each of them then, which takes some milliseconds."""

from __future__ import annotations

from typing import Any

from .inputs import Buffers
from .side_effects import SideEffects, poison

DTYPES = ("float32", "float16", "bfloat16")


def load_kernels(device: str) -> None:
    """Draw, copy, digest and spoil tensors of a few elements, as a check does with inputs; opens the device."""
    import torch

    for name in DTYPES:
        dtype = getattr(torch, name)
        drawn: list[Any] = [make(4, 8, dtype=dtype, device=device) for make in (torch.randn, torch.rand, torch.ones)]
        given = Buffers().fill(drawn)
        effects = SideEffects(given)
        poison(given)
        effects.of(given)
