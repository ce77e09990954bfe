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
    # In fp8 the result is of the order of 1, as its tolerance takes it to be: tensor cores add in some 14 bits.
    scale = K**-0.25 if dtype.itemsize == 1 else 1.0
    if layout == "N":
        return (torch.randn(columns, rows) * scale).to(dtype).t()
    return (torch.randn(rows, columns) * scale).to(dtype)


def get_inputs():
    return [operand(M, K, LAYOUT[0]), operand(K, N, LAYOUT[1])]


def get_init_inputs():
    return []
