"""Group norm with SiLU."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

B = 8
C = 320
G = 32
W = 128
WORKLOADS = {"tiny": {"B": 2, "C": 8, "G": 2, "W": 20}}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(G, C)
        self.to(torch.bfloat16)

    def forward(self, x: torch.Tensor) -> Any:
        return functional.silu(self.norm(x))


def get_inputs() -> list[Any]:
    return [torch.randn(B, C, W, W, dtype=torch.bfloat16)]


def get_init_inputs() -> list[Any]:
    return []
