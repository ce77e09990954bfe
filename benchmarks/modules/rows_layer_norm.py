"""Layer norm."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

ROWS = 8192
N = 4096
WORKLOADS = {"tiny": {"ROWS": 9, "N": 77}}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(N)
        self.to(torch.bfloat16)

    def forward(self, x: torch.Tensor) -> Any:
        return self.norm(x)


def get_inputs() -> list[Any]:
    return [torch.randn(ROWS, N, dtype=torch.bfloat16)]


def get_init_inputs() -> list[Any]:
    return []
