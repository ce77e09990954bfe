"""Square matrix product C = A B in fp32."""

import torch
from torch import nn

N = 4096

WORKLOADS = {"cpu": {"N": 512}, "tiny": {"N": 64}}


class Model(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return torch.matmul(A, B)


def get_inputs():
    return [torch.randn(N, N), torch.randn(N, N)]


def get_init_inputs():
    return []
