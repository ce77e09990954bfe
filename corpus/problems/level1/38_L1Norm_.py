"""L1 normalization: each row divided by the mean of its absolute values."""

import torch
from torch import nn

batch_size = 4096
dim = 32768

WORKLOADS = {"cpu": {"batch_size": 256, "dim": 8192}, "tiny": {"batch_size": 4, "dim": 1024}}


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / torch.mean(torch.abs(x), dim=1, keepdim=True)


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return []
