"""Instance norm with a leaky ReLU."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

B = 16
C = 64
W = 128
WORKLOADS = {"tiny": {"B": 2, "C": 5, "W": 20}}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.InstanceNorm2d(C, affine=True)
        self.to(torch.bfloat16)

    def forward(self, x: torch.Tensor) -> Any:
        return functional.leaky_relu(self.norm(x), 0.2)


def get_inputs() -> list[Any]:
    return [torch.randn(B, C, W, W, dtype=torch.bfloat16)]


def get_init_inputs() -> list[Any]:
    return []
