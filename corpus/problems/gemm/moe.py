"""Mixture of experts: w2 (silu(gate x) * (factor x)) of each token's TOP_K among E experts, added by their weights.

With DTYPE float8_e4m3fn as engines serve it (w8a8): tokens are bf16, weights fp8 with a scale for each 128x128, and
what enters a product is rounded to fp8 with a scale for each 1x128.
"""

import torch
from torch import nn

M = 4096
N = 2048
K = 4096
E = 8
TOP_K = 2
DTYPE = "bfloat16"
BLOCK = 128
LEAST = 1e-10

# Tensor cores add products of fp8 in some 14 bits. Where such a sum lies between two bf16 values and then between two
# fp8 values, an engine rounds it to the other one, and a term of the second sum is off by up to an eighth.
MATCHED = 0.97 if DTYPE == "float8_e4m3fn" else 1.0

WORKLOADS = {"tiny": {"M": 24, "N": 48, "K": 64, "E": 5, "TOP_K": 2}}


def blocks(extent):
    return (extent + BLOCK - 1) // BLOCK


def rounded(x, dtype):
    """What enters a product: fp8 times the scale of its 1x128 block, which makes the block's largest value 448."""
    # A tensor: by a number PyTorch divides on a GPU as by its reciprocal, and a scale that differs by one bit rounds
    # what lies between two fp8 values otherwise.
    limit = torch.full((), torch.finfo(torch.float8_e4m3fn).max, device=x.device)
    # Always in fp32, since bf16 divided by bf16 often lies between two fp8 values: rounding would then decide.
    parts = nn.functional.pad(x.float(), (0, -x.shape[-1] % BLOCK)).unflatten(-1, (-1, BLOCK))
    scales = parts.abs().amax(-1, keepdim=True).clamp(min=LEAST) / limit
    parts = (parts / scales).clamp(-limit, limit).to(torch.float8_e4m3fn)
    return (parts.to(dtype) * scales.to(dtype)).flatten(-2)[..., : x.shape[-1]]


def widened(weight, scale):
    """An expert's fp8 weight with the scales of its 128x128 blocks."""
    scales = scale.repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)
    return weight.to(scale.dtype) * scales[: weight.shape[0], : weight.shape[1]]


class Model(nn.Module):
    def __init__(self, experts, width, hidden, dtype):
        super().__init__()
        dtype = getattr(torch, dtype)
        self.scaled = dtype.itemsize == 1
        # w1 has the rows of gate, then those of factor, as vLLM and SGLang keep them.
        for name, rows, columns in (("w1", 2 * width, hidden), ("w2", hidden, width)):
            weight, size = torch.randn(experts, rows, columns), columns**-0.5
            if self.scaled:
                scale = (torch.rand(experts, blocks(rows), blocks(columns)) + 0.5) * size
                self.register_parameter(f"{name}_scale", nn.Parameter(scale))
                size = 1.0
            self.register_parameter(name, nn.Parameter((weight * size).to(dtype)))

    def forward(self, x: torch.Tensor, weights: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        out = torch.zeros(x.shape, dtype=weights.dtype, device=x.device)
        expert = self.expert_of_fp8 if self.scaled else self.expert
        for number in range(self.w1.shape[0]):
            token, place = torch.where(ids == number)
            out.index_add_(0, token, expert(number, x[token]).to(out.dtype) * weights[token, place, None])
        return out.to(x.dtype)

    def expert(self, number: int, x: torch.Tensor) -> torch.Tensor:
        gate, factor = (x @ self.w1[number].t()).chunk(2, dim=-1)
        return (nn.functional.silu(gate) * factor) @ self.w2[number].t()

    def expert_of_fp8(self, number: int, x: torch.Tensor) -> torch.Tensor:
        # Also in fp64 what lies between the products is rounded as engines round it: a sum that lies elsewhere by a
        # little would else become another fp8 value, which is no error of the sum.
        wide = self.w1_scale.dtype
        up = rounded(x, wide) @ widened(self.w1[number], self.w1_scale[number]).t()
        gate, factor = up.to(torch.bfloat16).chunk(2, dim=-1)
        hidden = rounded(nn.functional.silu(gate) * factor, wide)
        return (hidden @ widened(self.w2[number], self.w2_scale[number]).t()).to(x.dtype)


def get_inputs():
    chosen = torch.randn(M, E).softmax(-1).topk(TOP_K)
    dtype = getattr(torch, DTYPE)
    tokens = torch.randn(M, K).to(dtype if dtype.itemsize > 1 else torch.bfloat16)
    return [tokens, chosen.values, chosen.indices.to(torch.int32)]


def get_init_inputs():
    return [E, N, K, DTYPE]
