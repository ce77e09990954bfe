"""Matrix product in fp32."""

import torch
from torch import nn

M = 2048
N = 2048
K = 1024

WORKLOADS = {"tiny": {"M": 64, "N": 64, "K": 64}}


class Model(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return A @ B


def get_inputs():
    # B is scaled so that the sums over K are about 1.
    return [torch.randn(M, K), torch.randn(K, N) * K**-0.5]


def get_init_inputs():
    return []
