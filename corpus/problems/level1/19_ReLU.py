"""Rectified linear unit, elementwise."""

import torch
from torch import nn

batch_size = 4096
dim = 32768

WORKLOADS = {"cpu": {"batch_size": 256, "dim": 16384}, "tiny": {"batch_size": 4, "dim": 1024}}


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return []
