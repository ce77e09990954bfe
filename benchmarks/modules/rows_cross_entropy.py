"""The loss over a vocabulary."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

ROWS = 8192
N = 32000
WORKLOADS = {"tiny": {"ROWS": 9, "N": 20000}}


class Model(nn.Module):
    def forward(self, x: torch.Tensor, target: torch.Tensor) -> Any:
        return functional.cross_entropy(x.float(), target)


def get_inputs() -> list[Any]:
    return [torch.randn(ROWS, N, dtype=torch.bfloat16), torch.randint(0, N, (ROWS,))]


def get_init_inputs() -> list[Any]:
    return []
