"""Attention that sees a prefix, and what comes before each query."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

B = 2
H = 16
S = 4096
D = 128
PREFIX = 512
WORKLOADS = {"tiny": {"B": 1, "H": 2, "S": 70, "D": 32, "PREFIX": 33}}


class Model(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        i = torch.arange(S, device=q.device)[:, None]
        j = torch.arange(S, device=q.device)[None, :]
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=(j <= i) | (j < PREFIX))


def get_inputs() -> list[Any]:
    return [
        torch.randn(B, H, S, D, dtype=torch.bfloat16),
        torch.randn(B, H, S, D, dtype=torch.bfloat16),
        torch.randn(B, H, S, D, dtype=torch.bfloat16),
    ]


def get_init_inputs() -> list[Any]:
    return []
