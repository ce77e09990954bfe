"""Two of eight experts for each token, decoding."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

M = 16
E = 8
TOP = 2
K = 4096
N = 1792
WORKLOADS = {"tiny": {"M": 5, "E": 4, "K": 64, "N": 48}}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.randn(E, N, K) / K**0.5)
        self.up = nn.Parameter(torch.randn(E, N, K) / K**0.5)
        self.to(torch.bfloat16)

    def forward(self, x: torch.Tensor, chosen: torch.Tensor, share: torch.Tensor) -> Any:
        gate = torch.einsum("mk,mtnk->mtn", x, self.gate[chosen])
        up = torch.einsum("mk,mtnk->mtn", x, self.up[chosen])
        return (functional.silu(gate) * up * share[:, :, None]).sum(1)


def get_inputs() -> list[Any]:
    return [
        torch.randn(M, K, dtype=torch.bfloat16),
        torch.randint(0, E, (M, TOP)),
        torch.rand(M, TOP, dtype=torch.bfloat16),
    ]


def get_init_inputs() -> list[Any]:
    return []
