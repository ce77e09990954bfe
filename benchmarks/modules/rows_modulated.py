"""Layer norm, scaled and shifted by sample, as diffusion transformers have it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

B = 8
S = 4096
N = 3072
WORKLOADS = {"tiny": {"B": 2, "S": 9, "N": 77}}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(N, elementwise_affine=False)
        self.to(torch.bfloat16)

    def forward(self, x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> Any:
        return self.norm(x) * (1 + scale[:, None]) + shift[:, None]


def get_inputs() -> list[Any]:
    return [
        torch.randn(B, S, N, dtype=torch.bfloat16),
        torch.randn(B, N, dtype=torch.bfloat16),
        torch.randn(B, N, dtype=torch.bfloat16),
    ]


def get_init_inputs() -> list[Any]:
    return []
