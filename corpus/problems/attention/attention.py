"""Scaled dot-product attention: query heads may share a head of keys and values; causal from the first key."""

import torch
from torch import nn
from torch.nn import functional

batch_size = 1
heads = 32
kv_heads = 32
seq_len_q = 512
seq_len_k = 512
head_dim = 64
head_dim_kv = 64
causal = False
dtype = "float16"

WORKLOADS = {
    "tiny": {"heads": 4, "kv_heads": 2, "seq_len_q": 200, "seq_len_k": 200},
    "long": {"seq_len_q": 4096, "seq_len_k": 4096, "head_dim": 128, "head_dim_kv": 128},
    "causal": {
        "batch_size": 4,
        "heads": 16,
        "kv_heads": 16,
        "seq_len_q": 2048,
        "seq_len_k": 2048,
        "head_dim": 128,
        "head_dim_kv": 128,
        "causal": True,
    },
}


class Model(nn.Module):
    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        shared = k.shape[1] != q.shape[1]
        return functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal, enable_gqa=shared)


def get_inputs():
    kind = getattr(torch, dtype)
    # Queries of this size make each one attend to a few keys only; a mean over all keys would be close to 0.
    q = 3 * torch.randn(batch_size, heads, seq_len_q, head_dim, dtype=kind)
    k = torch.randn(batch_size, kv_heads, seq_len_k, head_dim, dtype=kind)
    return [q, k, torch.randn(batch_size, kv_heads, seq_len_k, head_dim_kv, dtype=kind)]


def get_init_inputs():
    return [causal]
