"""Bias and GELU (its tanh form), element by element, fp32."""

import torch
from torch import nn
from torch.nn import functional

batch_size = 2048
dim = 2048

WORKLOADS = {"tiny": {"batch_size": 5, "dim": 300}}


class Model(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.gelu(x + self.bias, approximate="tanh")


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return [dim]
