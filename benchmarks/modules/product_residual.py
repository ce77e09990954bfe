"""A linear layer, scaled and added."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

M = 8192
K = 2048
N = 2048
WORKLOADS = {"tiny": {"M": 70, "K": 72, "N": 50}}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(K, N)
        self.scale = nn.Parameter(torch.rand(N))
        self.to(torch.bfloat16)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> Any:
        return residual + self.scale * self.layer(x)


def get_inputs() -> list[Any]:
    return [torch.randn(M, K, dtype=torch.bfloat16), torch.randn(M, N, dtype=torch.bfloat16)]


def get_init_inputs() -> list[Any]:
    return []
