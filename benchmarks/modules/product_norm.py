"""An RMS norm and a projection."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

M = 4096
K = 4096
N = 6144
WORKLOADS = {"tiny": {"M": 33, "K": 64, "N": 40}}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(K)
        self.layer = nn.Linear(K, N, bias=False)
        self.to(torch.bfloat16)

    def forward(self, x: torch.Tensor) -> Any:
        return self.layer(self.norm(x))


def get_inputs() -> list[Any]:
    return [torch.randn(M, K, dtype=torch.bfloat16)]


def get_init_inputs() -> list[Any]:
    return []
