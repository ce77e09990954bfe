"""Product of two fp16 matrices: 2048 tokens times the weights of a large vocabulary."""

import torch
from torch import nn

M = 2048
N = 65536
K = 2048

WORKLOADS = {"tiny": {"M": 200, "N": 520, "K": 72}}


class Model(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return A @ B


def get_inputs():
    # Scaled so that an element of the product has a standard deviation of about 1.
    return [torch.randn(M, K, dtype=torch.float16) / K**0.5, torch.randn(K, N, dtype=torch.float16)]


def get_init_inputs():
    return []
