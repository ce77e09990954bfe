"""A step of an LSTM."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

B = 512
N = 1024
H = 1024
WORKLOADS = {"tiny": {"B": 5, "N": 24, "H": 40}}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(N, H)
        self.to(torch.bfloat16)

    def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> Any:
        return self.cell(x, (h, c))


def get_inputs() -> list[Any]:
    return [
        torch.randn(B, N, dtype=torch.bfloat16),
        torch.randn(B, H, dtype=torch.bfloat16),
        torch.randn(B, H, dtype=torch.bfloat16),
    ]


def get_init_inputs() -> list[Any]:
    return []
