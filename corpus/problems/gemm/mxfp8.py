"""Product of MXFP8 A (M, K) and B (N, K): e4m3 values with a power of two (E8M0, biased by 127) for each 32 along K."""

import torch
from torch import nn

M = 4096
N = 4096
K = 4096
OUT = "bfloat16"
BLOCK = 32

WORKLOADS = {"tiny": {"M": 48, "N": 192, "K": 256}}


def dequantized(values: torch.Tensor, exponents: torch.Tensor) -> torch.Tensor:
    return values.float() * torch.exp2(exponents.float() - 127).repeat_interleave(BLOCK, 1)


class Model(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor, As: torch.Tensor, Bs: torch.Tensor) -> torch.Tensor:
        return (dequantized(A, As) @ dequantized(B, Bs).t()).to(getattr(torch, OUT))


def get_inputs():
    # The result is of the order of 1, as its tolerance takes it to be.
    scale = K**-0.25
    return [
        (torch.randn(M, K) * scale).to(torch.float8_e4m3fn),
        (torch.randn(N, K) * scale).to(torch.float8_e4m3fn),
        torch.randint(126, 129, (M, K // BLOCK), dtype=torch.uint8),
        torch.randint(126, 129, (N, K // BLOCK), dtype=torch.uint8),
    ]


def get_init_inputs():
    return []
