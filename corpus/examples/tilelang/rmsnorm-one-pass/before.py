"""RMS norm with one thread per row: a loop that sums squares, then a loop that reads the row again and scales it."""

import functools

import tilelang
import tilelang.language as T
import torch
from torch import nn

TARGET = "cuda"

THREADS = 64


@functools.lru_cache
def build(M, N, eps):
    @T.prim_func
    def rms_norm(x: T.Tensor((M, N), "float32"), weight: T.Tensor((N,), "float32"), y: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, THREADS), threads=THREADS) as bx:
            row = bx * THREADS + T.get_thread_binding()
            rms = T.alloc_local((1,), "float32")
            if row < M:
                rms[0] = 0.0
                for j in T.serial(N):
                    rms[0] += x[row, j] * x[row, j]
                rms[0] = T.rsqrt(rms[0] / N + eps)
                for j in T.serial(N):
                    y[row, j] = x[row, j] * rms[0] * weight[j]

    return tilelang.compile(rms_norm, out_idx=[-1], target=TARGET)


class ModelNew(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        M, N = x.shape
        return build(M, N, self.eps)(x.contiguous(), self.weight)
