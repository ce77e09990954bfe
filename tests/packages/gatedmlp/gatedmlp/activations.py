"""Activations for kernels, and in torch."""

import torch
import triton
import triton.language as tl


@triton.jit
def silu(x):
    return x * tl.sigmoid(x)


def silu_torch(x: torch.Tensor) -> torch.Tensor:
    return x * torch.sigmoid(x)
