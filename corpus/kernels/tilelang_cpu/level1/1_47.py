"""Sum over one dimension, seen as (outer, R, inner): grid over outer and blocks of inner, R serial."""

import functools
import math

import tilelang
import tilelang.cpu.language as T
import torch
from torch import nn

COMPILE_FLAGS = ["-O3", "-march=native"]

BLOCK_N = 128

SEARCH_SPACE = {"BLOCK_N": [32, 64, 128, 256, 512, 1024]}


@functools.cache
def build_sum(M: int, R: int, N: int):
    @T.prim_func
    def sum_dim(X: T.Tensor((M, R, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(M, T.ceildiv(N, BLOCK_N)) as (m, bx):
            acc = T.alloc_local((BLOCK_N,), "float32")
            T.clear(acc)
            for r in T.serial(R):
                for j in T.serial(BLOCK_N):
                    acc[j] += X[m, r, bx * BLOCK_N + j]
            for j in T.serial(BLOCK_N):
                Y[m, bx * BLOCK_N + j] = acc[j]

    return tilelang.compile(sum_dim, out_idx=[-1], target="c", compile_flags=COMPILE_FLAGS)


class ModelNew(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shape = list(x.shape)
        dim = self.dim % x.dim()
        M, R, N = math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])
        kernel = build_sum(M, R, N)
        shape[dim] = 1
        return kernel(x.contiguous().view(M, R, N)).view(shape)
