"""Projections, rotary embedding and causal attention of one layer."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

B = 2
S = 2048
H = 32
D = 128
WORKLOADS = {"tiny": {"B": 1, "S": 40, "H": 2, "D": 32}}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(H * D, 3 * H * D, bias=False)
        self.out = nn.Linear(H * D, H * D, bias=False)
        self.to(torch.bfloat16)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Any:
        def rotated(t: torch.Tensor) -> torch.Tensor:
            first, second = t.chunk(2, -1)
            return t * cos + torch.cat((-second, first), -1) * sin

        q, k, v = (t.view(B, S, H, D).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = functional.scaled_dot_product_attention(rotated(q), rotated(k), v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(B, S, H * D))


def get_inputs() -> list[Any]:
    return [
        torch.randn(B, S, H * D, dtype=torch.bfloat16),
        torch.randn(S, D, dtype=torch.bfloat16),
        torch.randn(S, D, dtype=torch.bfloat16),
    ]


def get_init_inputs() -> list[Any]:
    return []
