"""L1 normalization: one row per grid step, a pass for the sum of absolute values, then the division."""

import functools

import tilelang
import tilelang.cpu.language as T
import torch
from torch import nn

COMPILE_FLAGS = ["-O3", "-march=native"]


@functools.cache
def build_l1norm(M: int, N: int):
    @T.prim_func
    def l1norm(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(M) as row:
            acc = T.alloc_local((1,), "float32")
            acc[0] = 0.0
            for j in T.serial(N):
                # The C backend has no abs.
                acc[0] += T.max(X[row, j], -X[row, j])
            for j in T.serial(N):
                Y[row, j] = X[row, j] / (acc[0] / N)

    return tilelang.compile(l1norm, out_idx=[-1], target="c", compile_flags=COMPILE_FLAGS)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        M, N = x.shape
        kernel = build_l1norm(M, N)
        return kernel(x.contiguous())
