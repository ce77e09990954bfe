"""Attention of one query, decoding."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

B = 32
H = 32
G = 8
S = 4096
D = 128
WORKLOADS = {"tiny": {"B": 2, "H": 4, "G": 2, "S": 600, "D": 32}}


class Model(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        return functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def get_inputs() -> list[Any]:
    return [
        torch.randn(B, H, 1, D, dtype=torch.bfloat16),
        torch.randn(B, G, S, D, dtype=torch.bfloat16),
        torch.randn(B, G, S, D, dtype=torch.bfloat16),
    ]


def get_init_inputs() -> list[Any]:
    return []
