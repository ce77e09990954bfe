"""A linear layer of few rows with int4 weights by groups."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

M = 16
K = 4096
N = 11008
GROUP = 128
WORKLOADS = {"tiny": {"M": 5, "K": 64, "N": 48, "GROUP": 32}}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("packed", torch.randint(0, 256, (N, K // 2), dtype=torch.uint8))
        self.register_buffer("scale", torch.rand(N, K // GROUP).to(torch.bfloat16) / 16)

    def forward(self, x: torch.Tensor) -> Any:
        packed = self.packed
        weight = torch.stack((packed & 15, packed >> 4), -1).view(N, K // GROUP, GROUP).to(x.dtype) - 8
        return functional.linear(x, (weight * self.scale[:, :, None]).view(N, K))


def get_inputs() -> list[Any]:
    return [torch.randn(M, K, dtype=torch.bfloat16)]


def get_init_inputs() -> list[Any]:
    return []
