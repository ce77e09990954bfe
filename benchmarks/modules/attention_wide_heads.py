"""Causal attention of wide heads that share one head of keys and values."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

B = 2
H = 16
S = 2048
D = 256
WORKLOADS = {"tiny": {"B": 1, "H": 2, "S": 70, "D": 32}}


class Model(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def get_inputs() -> list[Any]:
    return [
        torch.randn(B, H, S, D, dtype=torch.bfloat16),
        torch.randn(B, 1, S, D, dtype=torch.bfloat16),
        torch.randn(B, 1, S, D, dtype=torch.bfloat16),
    ]


def get_init_inputs() -> list[Any]:
    return []
