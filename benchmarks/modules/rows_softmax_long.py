"""Log-softmax over a vocabulary."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

ROWS = 4096
N = 128256
WORKLOADS = {"tiny": {"ROWS": 3, "N": 20000}}


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return torch.log_softmax(x, -1)


def get_inputs() -> list[Any]:
    return [torch.randn(ROWS, N, dtype=torch.bfloat16)]


def get_init_inputs() -> list[Any]:
    return []
