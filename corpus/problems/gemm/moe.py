"""Mixture of experts: w2 (silu(gate x) * (factor x)) of each token's TOP_K among E experts, added by their weights."""

import torch
from torch import nn

M = 4096
N = 2048
K = 4096
E = 8
TOP_K = 2
DTYPE = "bfloat16"

WORKLOADS = {"tiny": {"M": 24, "N": 48, "K": 64, "E": 5, "TOP_K": 2}}


class Model(nn.Module):
    def __init__(self, experts, width, hidden, dtype):
        super().__init__()
        dtype = getattr(torch, dtype)
        # w1 has the rows of gate, then those of factor, as vLLM and SGLang keep them.
        self.w1 = nn.Parameter((torch.randn(experts, 2 * width, hidden) * hidden**-0.5).to(dtype))
        self.w2 = nn.Parameter((torch.randn(experts, hidden, width) * width**-0.5).to(dtype))

    def forward(self, x: torch.Tensor, weights: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        out = torch.zeros(x.shape, device=x.device)
        for expert in range(self.w1.shape[0]):
            token, place = torch.where(ids == expert)
            gate, factor = (x[token] @ self.w1[expert].t()).chunk(2, dim=-1)
            result = (nn.functional.silu(gate) * factor) @ self.w2[expert].t()
            out.index_add_(0, token, result.float() * weights[token, place, None])
        return out.to(x.dtype)


def get_inputs():
    chosen = torch.randn(M, E).softmax(-1).topk(TOP_K)
    return [torch.randn(M, K).to(getattr(torch, DTYPE)), chosen.values, chosen.indices.to(torch.int32)]


def get_init_inputs():
    return [E, N, K, DTYPE]
