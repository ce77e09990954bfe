"""A linear layer with GELU, quantized to int8."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

M = 4096
K = 4096
N = 4096
WORKLOADS = {"tiny": {"M": 33, "K": 64, "N": 48}}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(K, N)
        self.to(torch.bfloat16)

    def forward(self, x: torch.Tensor) -> Any:
        y = functional.gelu(self.layer(x).float(), approximate="tanh")
        return torch.clamp(torch.round(y / 0.05), -128, 127).to(torch.int8)


def get_inputs() -> list[Any]:
    return [torch.randn(M, K, dtype=torch.bfloat16)]


def get_init_inputs() -> list[Any]:
    return []
