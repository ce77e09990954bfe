"""Matrix product C = A B with fp32 accumulation, each operand row-major (T) or column-major (N)."""

import torch
from torch import nn

M = 4096
N = 4096
K = 4096
DTYPE = "float16"
LAYOUT = "TT"

WORKLOADS = {"tiny": {"M": 80, "N": 64, "K": 96}}


class Model(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        if A.element_size() == 1:
            # bf16 holds every fp8 value, so only the sum rounds.
            return A.to(torch.bfloat16) @ B.to(torch.bfloat16)
        return A @ B


def operand(rows, columns, layout):
    dtype = getattr(torch, DTYPE)
    if layout == "N":
        return torch.randn(columns, rows).to(dtype).t()
    return torch.randn(rows, columns).to(dtype)


def get_inputs():
    return [operand(M, K, LAYOUT[0]), operand(K, N, LAYOUT[1])]


def get_init_inputs():
    return []
