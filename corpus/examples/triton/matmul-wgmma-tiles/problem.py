"""Product of two fp16 matrices."""

import torch
from torch import nn

M = 4096
N = 4096
K = 4096

WORKLOADS = {"tiny": {"M": 520, "N": 536, "K": 72}}


class Model(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return A @ B


def get_inputs():
    # Scaled so that an element of the product has a standard deviation of about 1.
    return [torch.randn(M, K, dtype=torch.float16) / K**0.5, torch.randn(K, N, dtype=torch.float16)]


def get_init_inputs():
    return []
