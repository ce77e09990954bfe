"""SiLU of a half, times the other half."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

ROWS = 4096
N = 14336
WORKLOADS = {"tiny": {"ROWS": 9, "N": 77}}


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        gate, up = x.chunk(2, -1)
        return functional.silu(gate) * up


def get_inputs() -> list[Any]:
    return [torch.randn(ROWS, 2 * N, dtype=torch.bfloat16)]


def get_init_inputs() -> list[Any]:
    return []
