"""The gate of one packed product."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

M = 4096
K = 4096
N = 11008
WORKLOADS = {"tiny": {"M": 33, "K": 64, "N": 48}}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(K, 2 * N, bias=False)
        self.to(torch.bfloat16)

    def forward(self, x: torch.Tensor) -> Any:
        gate, up = self.layer(x).chunk(2, -1)
        return functional.silu(gate) * up


def get_inputs() -> list[Any]:
    return [torch.randn(M, K, dtype=torch.bfloat16)]


def get_init_inputs() -> list[Any]:
    return []
