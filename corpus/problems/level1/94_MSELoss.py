"""Mean squared error of two tensors, a scalar."""

import torch
from torch import nn

batch_size = 4096
dim = 16384

WORKLOADS = {"cpu": {"batch_size": 256, "dim": 8192}, "tiny": {"batch_size": 4, "dim": 1024}}


class Model(nn.Module):
    def forward(self, predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return torch.mean((predictions - targets) ** 2)


def get_inputs():
    return [torch.randn(batch_size, dim), torch.randn(batch_size, dim)]


def get_init_inputs():
    return []
