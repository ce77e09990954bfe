"""A linear layer with int8 weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

M = 64
K = 4096
N = 4096
WORKLOADS = {"tiny": {"M": 5, "K": 64, "N": 48}}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("packed", torch.randint(-128, 128, (N, K), dtype=torch.int8))
        self.register_buffer("scale", torch.rand(N, 1).to(torch.bfloat16) / 64)

    def forward(self, x: torch.Tensor) -> Any:
        return functional.linear(x, self.packed.to(x.dtype) * self.scale)


def get_inputs() -> list[Any]:
    return [torch.randn(M, K, dtype=torch.bfloat16)]


def get_init_inputs() -> list[Any]:
    return []
