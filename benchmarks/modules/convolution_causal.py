"""A causal convolution of each channel with SiLU, as state space models have it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

B = 8
S = 4096
N = 2048
TAPS = 4
WORKLOADS = {"tiny": {"B": 2, "S": 33, "N": 20}}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv1d(N, N, TAPS, groups=N, padding=TAPS - 1)
        self.to(torch.bfloat16)

    def forward(self, x: torch.Tensor) -> Any:
        y = self.layer(x.transpose(1, 2))[..., : x.shape[1]]
        return functional.silu(y).transpose(1, 2)


def get_inputs() -> list[Any]:
    return [torch.randn(B, S, N, dtype=torch.bfloat16)]


def get_init_inputs() -> list[Any]:
    return []
