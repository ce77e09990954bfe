"""Transpose of a matrix into contiguous memory, fp32."""

import torch
from torch import nn

M = 8192
N = 8192

WORKLOADS = {"tiny": {"M": 200, "N": 328}}


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.t().contiguous()


def get_inputs():
    return [torch.randn(M, N)]


def get_init_inputs():
    return []
