"""Product of two fp32 matrices."""

import torch
from torch import nn

M = 4096
N = 4096
K = 1024

WORKLOADS = {"tiny": {"M": 72, "N": 88, "K": 136}}


class Model(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return A @ B


def get_inputs():
    # Scaled so that an element of the product has a standard deviation of about 1.
    return [torch.randn(M, K) / K**0.5, torch.randn(K, N)]


def get_init_inputs():
    return []
