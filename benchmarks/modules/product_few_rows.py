"""A linear layer of few rows, decoding."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

M = 16
K = 4096
N = 4096
WORKLOADS = {"tiny": {"M": 5, "K": 600, "N": 50}}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(K, N, bias=False)
        self.to(torch.bfloat16)

    def forward(self, x: torch.Tensor) -> Any:
        return self.layer(x)


def get_inputs() -> list[Any]:
    return [torch.randn(M, K, dtype=torch.bfloat16)]


def get_init_inputs() -> list[Any]:
    return []
