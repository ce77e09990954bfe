"""Softmax over long rows, fp32."""

import torch
from torch import nn

batch_size = 2048
dim = 32768

WORKLOADS = {"tiny": {"batch_size": 5, "dim": 10000}}


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, dim=1)


def get_inputs():
    # Logits this far apart leave most of a row's weight on a few elements.
    return [4 * torch.randn(batch_size, dim)]


def get_init_inputs():
    return []
