"""Product of a wide and a tall fp16 matrix: few results, each a very long sum."""

import torch
from torch import nn

M = 256
N = 256
K = 65536

WORKLOADS = {"tiny": {"M": 64, "N": 64, "K": 4096}}


class Model(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return A @ B


def get_inputs():
    # B is scaled so that the sums over K are about 1.
    return [torch.randn(M, K, dtype=torch.float16), torch.randn(K, N, dtype=torch.float16) * K**-0.5]


def get_init_inputs():
    return []
