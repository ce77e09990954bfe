"""Scaled dot-product attention over all keys, fp16, heads of 128."""

import torch
from torch import nn
from torch.nn import functional

batch_size = 2
heads = 16
seq_len = 2048
head_dim = 128

WORKLOADS = {"tiny": {"batch_size": 1, "heads": 2, "seq_len": 200, "head_dim": 64}}


class Model(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, k, v)


def get_inputs():
    shape = (batch_size, heads, seq_len, head_dim)
    # Queries of this size make each one attend to a few keys only; a mean over all keys would be close to 0.
    q = 3 * torch.randn(shape, dtype=torch.float16)
    return [q, torch.randn(shape, dtype=torch.float16), torch.randn(shape, dtype=torch.float16)]


def get_init_inputs():
    return []
