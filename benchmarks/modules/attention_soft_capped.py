"""Attention with a soft cap and a window."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

B = 2
H = 8
S = 4096
D = 128
WINDOW = 1024
WORKLOADS = {"tiny": {"B": 1, "H": 2, "S": 70, "D": 32, "WINDOW": 20}}


class Model(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        scores = 50.0 * torch.tanh(q @ k.transpose(-1, -2) * D**-0.5 / 50.0)
        i = torch.arange(S, device=q.device)[:, None]
        j = torch.arange(S, device=q.device)[None, :]
        hidden = (j > i) | (i - j >= WINDOW)
        return scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v


def get_inputs() -> list[Any]:
    return [
        torch.randn(B, H, S, D, dtype=torch.bfloat16),
        torch.randn(B, H, S, D, dtype=torch.bfloat16),
        torch.randn(B, H, S, D, dtype=torch.bfloat16),
    ]


def get_init_inputs() -> list[Any]:
    return []
