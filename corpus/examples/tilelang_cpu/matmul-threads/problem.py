"""Matrix product in fp32."""

import torch
from torch import nn

M = 512
N = 512
K = 512

WORKLOADS = {"tiny": {"M": 20, "N": 72, "K": 50}}


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a, b)


def get_inputs():
    # Scaled so that the sums are about 1.
    return [torch.randn(M, K) / K**0.5, torch.randn(K, N)]


def get_init_inputs():
    return []
