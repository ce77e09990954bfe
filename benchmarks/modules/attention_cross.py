"""Attention of few queries to many keys."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

B = 8
H = 16
Q = 256
S = 4096
D = 64
WORKLOADS = {"tiny": {"B": 1, "H": 2, "Q": 20, "S": 70, "D": 32}}


class Model(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        return functional.scaled_dot_product_attention(q, k, v)


def get_inputs() -> list[Any]:
    return [
        torch.randn(B, H, Q, D, dtype=torch.bfloat16),
        torch.randn(B, H, S, D, dtype=torch.bfloat16),
        torch.randn(B, H, S, D, dtype=torch.bfloat16),
    ]


def get_init_inputs() -> list[Any]:
    return []
