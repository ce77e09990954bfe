"""Batch norm of few channels in training."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

B = 64
C = 32
W = 224
WORKLOADS = {"tiny": {"B": 2, "C": 3, "W": 80}}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(C)
        self.to(torch.bfloat16)

    def forward(self, x: torch.Tensor) -> Any:
        return torch.relu(self.norm(x))


def get_inputs() -> list[Any]:
    return [torch.randn(B, C, W, W, dtype=torch.bfloat16)]


def get_init_inputs() -> list[Any]:
    return []
