"""Attention of the newest positions of each sequence to a cache of keys and values, as in decoding.

The last query sees all keys, each one before it one key less. Query heads may share a head of keys and values.
"""

import torch
from torch import nn
from torch.nn import functional

batch_size = 8
heads = 32
kv_heads = 8
seq_len_q = 1
seq_len_k = 8192
head_dim = 128
head_dim_kv = 128
dtype = "bfloat16"

WORKLOADS = {
    "tiny": {"batch_size": 2, "heads": 6, "kv_heads": 2, "seq_len_k": 300, "head_dim": 32, "head_dim_kv": 48},
    "one": {"batch_size": 1, "seq_len_k": 32768},
    "many": {"batch_size": 64, "seq_len_k": 4096},
    "drafts": {"seq_len_q": 4},
}


class Model(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        shared, queries, keys = k.shape[1] != q.shape[1], q.shape[2], k.shape[2]
        # For one query there is nothing to hide, and not every library takes a mask.
        mask = None
        if queries > 1:
            mask = torch.ones(queries, keys, dtype=torch.bool, device=q.device).tril(keys - queries)
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=shared)


def get_inputs():
    kind = getattr(torch, dtype)
    # Queries of this size make each one attend to a few keys only; a mean over all keys would be close to 0.
    q = 3 * torch.randn(batch_size, heads, seq_len_q, head_dim, dtype=kind)
    k = torch.randn(batch_size, kv_heads, seq_len_k, head_dim, dtype=kind)
    return [q, k, torch.randn(batch_size, kv_heads, seq_len_k, head_dim_kv, dtype=kind)]


def get_init_inputs():
    return []
