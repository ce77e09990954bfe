"""Rows times a vector, in TileLang on a CPU."""

import functools

import tilelang
import tilelang.cpu.language as T
from shared import FLAGS

BLOCK_ROWS = 1


@functools.cache
def build(M, N):
    @T.prim_func
    def kernel(X: T.Tensor((M, N), "float32"), W: T.Tensor((N,), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, BLOCK_ROWS)) as b:
            for i, j in T.grid(BLOCK_ROWS, N):
                Y[b * BLOCK_ROWS + i, j] = X[b * BLOCK_ROWS + i, j] * W[j]

    return tilelang.compile(kernel, out_idx=[-1], target="c", compile_flags=FLAGS)


def scale(x, weight):
    return build(*x.shape)(x, weight)


def scale_torch(x, weight):
    return x * weight


def inputs(seed, rows=256):
    import torch

    return [torch.randn(rows, 256), torch.randn(256)]


WORKLOADS = {"few": {"rows": 64}, "many": {"rows": 512}}
