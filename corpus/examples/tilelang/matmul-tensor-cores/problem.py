"""Matrix product of fp16 matrices."""

import torch
from torch import nn

M = 2048
N = 2048
K = 2048

WORKLOADS = {"tiny": {"M": 128, "N": 128, "K": 128}}


class Model(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return A @ B


def get_inputs():
    # B is scaled so that the sums over K are about 1.
    return [torch.randn(M, K, dtype=torch.float16), torch.randn(K, N, dtype=torch.float16) * K**-0.5]


def get_init_inputs():
    return []
