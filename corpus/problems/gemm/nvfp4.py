"""Product of NVFP4 A (M, K) and B (N, K): e2m1 values, two in a byte, with an e4m3 scale for each 16 along K.

The lower half of a byte is the first of its two values. `alpha`, the product of both tensors' own scales, multiplies
the result.
"""

import torch
from torch import nn

M = 4096
N = 4096
K = 4096
OUT = "bfloat16"
BLOCK = 16

WORKLOADS = {"tiny": {"M": 48, "N": 192, "K": 256}}


def dequantized(packed: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    codes = torch.stack([packed & 15, packed >> 4], -1).flatten(1).long()
    sizes = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0], device=packed.device)
    values = sizes[codes & 7] * (1 - 2 * (codes >> 3))
    return values * scales.float().repeat_interleave(BLOCK, 1)


class Model(nn.Module):
    def forward(
        self, A: torch.Tensor, B: torch.Tensor, As: torch.Tensor, Bs: torch.Tensor, alpha: torch.Tensor
    ) -> torch.Tensor:
        product = dequantized(A, As) @ dequantized(B, Bs).t()
        return (product * alpha).to(getattr(torch, OUT))


def get_inputs():
    return [
        torch.randint(0, 256, (M, K // 2), dtype=torch.uint8),
        torch.randint(0, 256, (N, K // 2), dtype=torch.uint8),
        (torch.rand(M, K // BLOCK) + 0.5).to(torch.float8_e4m3fn),
        (torch.rand(N, K // BLOCK) + 0.5).to(torch.float8_e4m3fn),
        # The values' mean square is 9: the result is of the order of 1, as its tolerance takes it to be.
        torch.full((1,), K**-0.5 / 9),
    ]


def get_init_inputs():
    return []
