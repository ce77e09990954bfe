"""Quantization of each row to int8."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

ROWS = 8192
N = 4096
WORKLOADS = {"tiny": {"ROWS": 9, "N": 77}}


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        scale = x.float().abs().amax(-1, keepdim=True) / 127
        return torch.round(x.float() / scale).to(torch.int8), scale


def get_inputs() -> list[Any]:
    return [torch.randn(ROWS, N, dtype=torch.bfloat16)]


def get_init_inputs() -> list[Any]:
    return []
