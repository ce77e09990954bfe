"""Rotary embedding of queries and keys."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

B = 4
S = 4096
H = 32
D = 128
WORKLOADS = {"tiny": {"B": 1, "S": 9, "H": 2, "D": 32}}


class Model(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Any:
        def rotated(t: torch.Tensor) -> torch.Tensor:
            first, second = t.chunk(2, -1)
            return t * cos + torch.cat((-second, first), -1) * sin

        return rotated(q), rotated(k)


def get_inputs() -> list[Any]:
    return [
        torch.randn(B, H, S, D, dtype=torch.bfloat16),
        torch.randn(B, H, S, D, dtype=torch.bfloat16),
        torch.randn(S, D, dtype=torch.bfloat16),
        torch.randn(S, D, dtype=torch.bfloat16),
    ]


def get_init_inputs() -> list[Any]:
    return []
