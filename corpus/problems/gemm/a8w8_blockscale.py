"""Product of fp8 activations (M, K) and fp8 weights (N, K): a scale for each 1x128 of A, each 128x128 of B."""

import torch
from torch import nn

M = 4096
N = 4096
K = 7168
OUT = "bfloat16"
BLOCK = 128

WORKLOADS = {"tiny": {"M": 48, "N": 192, "K": 256}}


class Model(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor, As: torch.Tensor, Bs: torch.Tensor) -> torch.Tensor:
        C = torch.zeros(A.shape[0], B.shape[0], device=A.device)
        scales = Bs.repeat_interleave(BLOCK, 0)[: B.shape[0]]
        # Products of fp8 values are exact in fp32: a block is scaled as a whole, as kernels do.
        for block in range(As.shape[1]):
            part = slice(block * BLOCK, (block + 1) * BLOCK)
            product = A[:, part].float() @ B[:, part].float().t()
            C += product * As[:, block, None] * scales[:, block]
        return C.to(getattr(torch, OUT))


def get_inputs():
    blocks_n, blocks_k = (N + BLOCK - 1) // BLOCK, (K + BLOCK - 1) // BLOCK
    # The result is of the order of 1, as its tolerance takes it to be: tensor cores add fp8 products in some 14 bits.
    scale = K**-0.25
    return [
        torch.randn(M, K).to(torch.float8_e4m3fn),
        torch.randn(N, K).to(torch.float8_e4m3fn),
        (torch.rand(M, blocks_k) + 0.5) * scale,
        (torch.rand(blocks_n, blocks_k) + 0.5) * scale,
    ]


def get_init_inputs():
    return []
