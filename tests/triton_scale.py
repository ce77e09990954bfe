"""Each row times a vector, in Triton: the published small kernel's counterpart."""

from __future__ import annotations

TRITON_KERNEL = """
import torch
import triton
import triton.language as tl
from torch import nn

BLOCK = 64


@triton.jit
def scale(x, w, y, n, size, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < size
    value = tl.load(x + offsets, mask) * tl.load(w + offsets % n, mask)
    tl.store(y + offsets, value, mask)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features))

    def forward(self, x):
        y = torch.empty_like(x)
        scale[(triton.cdiv(x.numel(), BLOCK),)](x, self.weight, y, x.shape[1], x.numel(), BLOCK=BLOCK)
        return y
"""
