"""
Problem Name: 12_Gemm_Multiply_LeakyReLU
Evaluation Result: {'compiled': True, 'correctness': True, 'speedup_ratio': 1.5146, 'interval': [1.5125, 1.5167], 'latency_ms': 0.45790401101112366, 'reference_ms': 0.6935199797153473, 'start_latency_ms': 0.9155040085315704, 'samples': 248, 'seeds': [576410625, 1098788338, 64648203], 'max_abs_error': 1.71661376953125e-05, 'tolerance': 0.0001, 'workload': 'default', 'sizes': {}, 'device': 'NVIDIA H200', 'python': '3.12.3', 'torch': '2.11.0+cu130', 'threads': '16', 'tilelang': '0.1.15', 'triton': '3.6.0', 'cuda': '13.0', 'tf32': 'off', 'uuid': '91ceb57b-0475-5397-aaff-3cc0e7b95297'}

Linear layer, product with a constant and leaky ReLU: a tensor core product with the rest as epilogue.
"""

import functools

import tilelang
import tilelang.language as T
import torch
from torch import nn

TARGET = "cuda"

BLOCK_M = 128
BLOCK_N = 128
BLOCK_K = 32
THREADS = 256
NUM_STAGES = 3
MIN_BLOCKS = 1


@functools.lru_cache
def build(M, N, K, multiplier, negative_slope):
    # fp32 has 13 bits of mantissa more than TF32: the high part rounds, the low part is what that lost.
    def high(value):
        return T.cast(value, T.tfloat32)

    def low(value):
        return T.cast(value - T.cast(high(value), "float32"), T.tfloat32)

    @T.prim_func
    def linear_leaky_relu(
        x: T.Tensor((M, K), "float32"),
        weight: T.Tensor((N, K), "float32"),
        bias: T.Tensor((N,), "float32"),
        y: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, BLOCK_N), T.ceildiv(M, BLOCK_M), threads=THREADS) as (bx, by):
            x_shared = T.alloc_shared((BLOCK_M, BLOCK_K), "float32")
            w_shared = T.alloc_shared((BLOCK_N, BLOCK_K), "float32")
            x_high = T.alloc_fragment((BLOCK_M, BLOCK_K), T.tfloat32)
            x_low = T.alloc_fragment((BLOCK_M, BLOCK_K), T.tfloat32)
            w_high = T.alloc_shared((BLOCK_N, BLOCK_K), T.tfloat32)
            w_low = T.alloc_shared((BLOCK_N, BLOCK_K), T.tfloat32)
            bias_local = T.alloc_fragment((BLOCK_N,), "float32")
            part = T.alloc_fragment((BLOCK_M, BLOCK_N), "float32")
            acc = T.alloc_fragment((BLOCK_M, BLOCK_N), "float32")
            T.annotate_min_blocks_per_sm(MIN_BLOCKS)
            # The threads read this tile as tensor cores want it: swizzled, without bank conflicts.
            T.annotate_layout({x_shared: tilelang.layout.make_swizzled_layout(x_shared)})
            # Down the rows of y first: the blocks that run at once share tiles of the larger operand.
            T.use_swizzle(16, order="row")
            T.clear(acc)
            for ko in T.Pipelined(T.ceildiv(K, BLOCK_K), num_stages=NUM_STAGES):
                # cp.async rather than TMA: with TMA the kernel is warp-specialized and one block fills an SM.
                T.copy(x[by * BLOCK_M, ko * BLOCK_K], x_shared, disable_tma=True)
                T.copy(weight[bx * BLOCK_N, ko * BLOCK_K], w_shared, disable_tma=True)
                for i, k in T.Parallel(BLOCK_M, BLOCK_K):
                    x_high[i, k] = high(x_shared[i, k])
                    x_low[i, k] = low(x_shared[i, k])
                for j, k in T.Parallel(BLOCK_N, BLOCK_K):
                    w_high[j, k] = high(w_shared[j, k])
                    w_low[j, k] = low(w_shared[j, k])
                T.gemm(x_low, w_high, part, transpose_B=True, policy=T.GemmWarpPolicy.FullRow, clear_accum=True)
                T.gemm(x_high, w_low, part, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.gemm(x_high, w_high, part, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                # Tensor cores truncate their sums: over all of K, in one accumulator, that adds up.
                for i, j in T.Parallel(BLOCK_M, BLOCK_N):
                    acc[i, j] += part[i, j]
            T.copy(bias[bx * BLOCK_N], bias_local)
            for i, j in T.Parallel(BLOCK_M, BLOCK_N):
                value = (acc[i, j] + bias_local[j]) * multiplier
                acc[i, j] = T.if_then_else(value > 0, value, value * negative_slope)
            T.copy(acc, y[by * BLOCK_M, bx * BLOCK_N])

    return tilelang.compile(linear_leaky_relu, out_idx=[-1], target=TARGET)


class ModelNew(nn.Module):
    def __init__(self, in_features: int, out_features: int, multiplier: float, negative_slope: float):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features)
        self.multiplier = multiplier
        self.leaky_relu = nn.LeakyReLU(negative_slope)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        M, K = x.shape
        N = self.gemm.out_features
        kernel = build(M, N, K, self.multiplier, self.leaky_relu.negative_slope)
        return kernel(x.contiguous(), self.gemm.weight, self.gemm.bias)
