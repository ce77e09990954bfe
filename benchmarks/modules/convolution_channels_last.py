"""A convolution with SiLU, channels last."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

B = 8
W = 64
C = 320
N = 640
WORKLOADS = {"tiny": {"B": 2, "W": 9, "C": 24, "N": 20}}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(C, N, 3, padding=1)
        self.to(torch.bfloat16)

    def forward(self, x: torch.Tensor) -> Any:
        return functional.silu(self.layer(x.permute(0, 3, 1, 2))).permute(0, 2, 3, 1).contiguous()


def get_inputs() -> list[Any]:
    return [torch.randn(B, W, W, C, dtype=torch.bfloat16)]


def get_init_inputs() -> list[Any]:
    return []
