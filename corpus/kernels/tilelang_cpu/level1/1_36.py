"""RMS normalization over channels: grid over batch and pixel blocks, channels in the outer serial loop."""

import functools

import tilelang
import tilelang.cpu.language as T
import torch
from torch import nn

COMPILE_FLAGS = ["-O3", "-march=native"]

BLOCK_P = 256

SEARCH_SPACE = {"BLOCK_P": [64, 128, 256, 512, 1024, 2048, 4096]}


@functools.cache
def build_rmsnorm(B: int, C: int, P: int, eps: float):
    @T.prim_func
    def rmsnorm(X: T.Tensor((B, C, P), "float32"), Y: T.Tensor((B, C, P), "float32")):
        with T.Kernel(B, T.ceildiv(P, BLOCK_P)) as (b, bp):
            sum_square = T.alloc_local((BLOCK_P,), "float32")
            T.clear(sum_square)
            for c in T.serial(C):
                for p in T.serial(BLOCK_P):
                    sum_square[p] += X[b, c, bp * BLOCK_P + p] * X[b, c, bp * BLOCK_P + p]
            for c in T.serial(C):
                for p in T.serial(BLOCK_P):
                    Y[b, c, bp * BLOCK_P + p] = X[b, c, bp * BLOCK_P + p] / T.sqrt(sum_square[p] / C + eps)

    return tilelang.compile(rmsnorm, out_idx=[-1], target="c", compile_flags=COMPILE_FLAGS)


class ModelNew(nn.Module):
    def __init__(self, num_features: int, eps: float = 1e-5):
        super().__init__()
        self.num_features = num_features
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, C, H, W = x.shape
        kernel = build_rmsnorm(B, C, H * W, self.eps)
        return kernel(x.contiguous().view(B, C, H * W)).view(x.shape)
