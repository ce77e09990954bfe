"""Matrix product in fp16 with fp32 accumulation: the problem of benchmarks/tuning.py."""

import torch
from torch import nn

M = 4096
N = 4096
K = 4096

WORKLOADS = {"tiny": {"M": 256, "N": 128, "K": 192}}


class Model(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return A @ B


def get_inputs():
    return [torch.randn(M, K, dtype=torch.float16), torch.randn(K, N, dtype=torch.float16)]


def get_init_inputs():
    return []
