"""Activations for kernels, and in torch."""

import torch
import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def silu(x):
    return x / (1.0 + tl.exp2(-LOG2E * x))


def silu_torch(x: torch.Tensor) -> torch.Tensor:
    return x * torch.sigmoid(x)
