"""A transformer block with norms before, and a gate."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

B = 2
S = 2048
H = 16
D = 64
WIDE = 4096
WORKLOADS = {"tiny": {"B": 1, "S": 40, "H": 2, "D": 32, "WIDE": 96}}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.RMSNorm(H * D), nn.RMSNorm(H * D)
        self.qkv = nn.Linear(H * D, 3 * H * D, bias=False)
        self.out = nn.Linear(H * D, H * D, bias=False)
        self.gate = nn.Linear(H * D, WIDE, bias=False)
        self.up = nn.Linear(H * D, WIDE, bias=False)
        self.down = nn.Linear(WIDE, H * D, bias=False)
        self.to(torch.bfloat16)

    def forward(self, x: torch.Tensor) -> Any:
        q, k, v = (t.view(B, S, H, D).transpose(1, 2) for t in self.qkv(self.first(x)).chunk(3, -1))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(B, S, H * D))
        h = self.second(x)
        return x + self.down(functional.silu(self.gate(h)) * self.up(h))


def get_inputs() -> list[Any]:
    return [torch.randn(B, S, H * D, dtype=torch.bfloat16)]


def get_init_inputs() -> list[Any]:
    return []
