"""The gate of two products, and the product after it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

M = 4096
K = 4096
N = 14336
WORKLOADS = {"tiny": {"M": 33, "K": 64, "N": 96}}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(K, N, bias=False)
        self.up = nn.Linear(K, N, bias=False)
        self.down = nn.Linear(N, K, bias=False)
        self.to(torch.bfloat16)

    def forward(self, x: torch.Tensor) -> Any:
        return self.down(functional.silu(self.gate(x)) * self.up(x))


def get_inputs() -> list[Any]:
    return [torch.randn(M, K, dtype=torch.bfloat16)]


def get_init_inputs() -> list[Any]:
    return []
