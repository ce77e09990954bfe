"""The mean of all elements of a tensor: their sum, divided once."""

import torch
from torch import nn

numel = 67108864

WORKLOADS = {"tiny": {"numel": 10001}}


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mean(x)


def get_inputs():
    return [torch.rand(numel)]


def get_init_inputs():
    return []
