"""Layer norm over the last dimension with weight and bias, fp32."""

import torch
from torch import nn
from torch.nn import functional

batch_size = 16384
dim = 4096

WORKLOADS = {"tiny": {"batch_size": 5, "dim": 1024}}


class Model(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim))
        self.bias = nn.Parameter(torch.randn(dim))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return [dim]
