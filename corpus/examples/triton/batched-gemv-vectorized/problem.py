"""A batch of vector-matrix products in fp16: y[b] = x[b] W[b]."""

import torch
from torch import nn

batch = 32
K = 2048
N = 2048

WORKLOADS = {"tiny": {"batch": 2, "K": 300, "N": 136}}


class Model(nn.Module):
    def forward(self, x: torch.Tensor, W: torch.Tensor) -> torch.Tensor:
        return torch.bmm(x.unsqueeze(1), W).squeeze(1)


def get_inputs():
    # Scaled so that an element of the product has a standard deviation of about 1.
    return [torch.randn(batch, K, dtype=torch.float16) / K**0.5, torch.randn(batch, K, N, dtype=torch.float16)]


def get_init_inputs():
    return []
