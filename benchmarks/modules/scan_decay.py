"""A linear recurrence with decays, as sums of logarithms."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

B = 8
S = 4096
N = 1024
WORKLOADS = {"tiny": {"B": 2, "S": 60, "N": 20}}


class Model(nn.Module):
    def forward(self, x: torch.Tensor, decay: torch.Tensor) -> Any:
        total = torch.cumsum(functional.logsigmoid(decay.float()) / 16, 1)
        return (torch.cumsum(x.float() * torch.exp(-total), 1) * torch.exp(total)).to(x.dtype)


def get_inputs() -> list[Any]:
    return [torch.randn(B, S, N, dtype=torch.bfloat16), torch.randn(B, S, N, dtype=torch.bfloat16) + 6]


def get_init_inputs() -> list[Any]:
    return []
