"""A product and a ReLU, in TileLang on a CPU."""

import functools

import tilelang
import tilelang.cpu.language as T
from shared import FLAGS

BLOCK_N = 2


@functools.cache
def build(M, N, K):
    @T.prim_func
    def kernel(X: T.Tensor((M, K), "float32"), W: T.Tensor((K, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(M, T.ceildiv(N, BLOCK_N)) as (i, b):
            total = T.alloc_local((BLOCK_N,), "float32")
            for j in T.serial(BLOCK_N):
                total[j] = 0.0
            for k in T.serial(K):
                for j in T.serial(BLOCK_N):
                    total[j] += X[i, k] * W[k, b * BLOCK_N + j]
            for j in T.serial(BLOCK_N):
                Y[i, b * BLOCK_N + j] = T.max(total[j], 0.0)

    return tilelang.compile(kernel, out_idx=[-1], target="c", compile_flags=FLAGS)


def linear_relu(x, weight):
    return build(x.shape[0], weight.shape[1], x.shape[1])(x, weight)


def linear_relu_torch(x, weight):
    import torch

    return torch.relu(x @ weight)


WORKLOADS = {"few": {"rows": 32}, "many": {"rows": 128}}


def inputs(seed, rows=128, inner=256):
    import torch

    return [torch.randn(rows, inner), torch.randn(inner, 128) / inner**0.5]
