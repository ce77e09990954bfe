"""Attention with a bias by distance."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

B = 2
H = 16
S = 2048
D = 64
WORKLOADS = {"tiny": {"B": 1, "H": 2, "S": 70, "D": 32}}


class Model(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        i = torch.arange(S, device=q.device)
        slopes = 2.0 ** -torch.arange(1, H + 1, device=q.device)
        bias = -(i[:, None] - i[None, :]).abs() * slopes[:, None, None]
        return ((q @ k.transpose(-1, -2)) * D**-0.5 + bias).softmax(-1).to(v.dtype) @ v


def get_inputs() -> list[Any]:
    return [
        torch.randn(B, H, S, D, dtype=torch.bfloat16),
        torch.randn(B, H, S, D, dtype=torch.bfloat16),
        torch.randn(B, H, S, D, dtype=torch.bfloat16),
    ]


def get_init_inputs() -> list[Any]:
    return []
