"""Sum over one dimension, which is kept with size 1."""

import torch
from torch import nn

batch_size = 64
dim1 = 2048
dim2 = 1024
reduce_dim = 1

WORKLOADS = {
    "cpu": {"batch_size": 16, "dim1": 512, "dim2": 1024},
    "tiny": {"batch_size": 2, "dim1": 16, "dim2": 64},
}


class Model(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sum(x, dim=self.dim, keepdim=True)


def get_inputs():
    return [torch.randn(batch_size, dim1, dim2)]


def get_init_inputs():
    return [reduce_dim]
