"""Batched products with an activation."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

B = 64
M = 512
K = 512
N = 512
WORKLOADS = {"tiny": {"B": 2, "M": 33, "K": 64, "N": 40}}


class Model(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.relu(torch.bmm(x, y))


def get_inputs() -> list[Any]:
    return [torch.randn(B, M, K, dtype=torch.bfloat16), torch.randn(B, K, N, dtype=torch.bfloat16)]


def get_init_inputs() -> list[Any]:
    return []
