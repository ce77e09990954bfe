"""Product of two fp16 matrices with a small result and a very long inner dimension."""

import torch
from torch import nn

M = 256
N = 256
K = 131072

WORKLOADS = {"tiny": {"M": 80, "N": 48, "K": 1100}}


class Model(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return A @ B


def get_inputs():
    # Scaled so that an element of the product has a standard deviation of about 1.
    return [torch.randn(M, K, dtype=torch.float16) / K**0.5, torch.randn(K, N, dtype=torch.float16)]


def get_init_inputs():
    return []
