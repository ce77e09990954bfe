"""Maxima over windows, after a bias and a ReLU."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

B = 64
C = 64
W = 112
WORKLOADS = {"tiny": {"B": 2, "C": 5, "W": 14}}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(C, 1, 1))
        self.to(torch.bfloat16)

    def forward(self, x: torch.Tensor) -> Any:
        return functional.max_pool2d(torch.relu(x + self.bias), 3, 2, 1)


def get_inputs() -> list[Any]:
    return [torch.randn(B, C, W, W, dtype=torch.bfloat16)]


def get_init_inputs() -> list[Any]:
    return []
