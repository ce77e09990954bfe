"""A linear layer with fp8 weights, scaled by blocks."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

M = 64
K = 4096
N = 4096
BLOCK = 128
WORKLOADS = {"tiny": {"M": 5, "K": 64, "N": 48, "BLOCK": 16}}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("packed", torch.randn(N, K).to(torch.float8_e4m3fn))
        self.register_buffer("scale", torch.rand(N // BLOCK, K // BLOCK).to(torch.bfloat16) / 64)

    def forward(self, x: torch.Tensor) -> Any:
        blocks = self.packed.to(x.dtype).view(N // BLOCK, BLOCK, K // BLOCK, BLOCK) * self.scale[:, None, :, None]
        return functional.linear(x, blocks.view(N, K))


def get_inputs() -> list[Any]:
    return [torch.randn(M, K, dtype=torch.bfloat16)]


def get_init_inputs() -> list[Any]:
    return []
