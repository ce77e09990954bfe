"""The transpose of a matrix, as a contiguous copy."""

import torch
from torch import nn

M = 8192
N = 8192

WORKLOADS = {"tiny": {"M": 100, "N": 150}}


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.t().contiguous()


def get_inputs():
    return [torch.randn(M, N)]


def get_init_inputs():
    return []
