"""
Problem Name: 36_RMSNorm_
Evaluation Result: {'compiled': True, 'correctness': True, 'speedup_ratio': 1.4435, 'interval': [1.3932, 1.4832], 'latency_ms': 2.066229, 'reference_ms': 2.98258, 'start_latency_ms': 10.710293, 'samples': 360, 'seeds': [872190428, 1677800130, 928634171], 'max_abs_error': 1.1920928955078125e-06, 'tolerance': 0.0001, 'workload': 'cpu', 'sizes': {'batch_size': 16, 'dim1': 64, 'dim2': 64}, 'device': 'AMD EPYC, 2 cores', 'python': '3.11.7', 'torch': '2.13.0+cpu', 'threads': '2', 'tilelang': '0.1.15', 'triton': '3.9.0'}

RMS normalization over channels: grid over batch and pixel blocks, channels in the outer serial loop.
"""

import functools
from concurrent.futures import ThreadPoolExecutor

import tilelang
import tilelang.cpu.language as T
import torch
from torch import nn

COMPILE_FLAGS = ["-O3", "-march=native"]

BLOCK_P = 256
THREADS = 2

POOL = ThreadPoolExecutor(max_workers=THREADS)

SEARCH_SPACE = {"BLOCK_P": [64, 128, 256, 512, 1024, 2048, 4096]}


@functools.cache
def build_rmsnorm(B: int, C: int, P: int, eps: float):
    @T.prim_func
    def rmsnorm(X: T.Tensor((B, C, P), "float32"), Y: T.Tensor((B, C, P), "float32"), part: T.int32):
        with T.Kernel(T.ceildiv(B, THREADS), T.ceildiv(P, BLOCK_P)) as (step, bp):
            T.assume(part >= 0)
            T.assume(part < THREADS)
            b = part * T.ceildiv(B, THREADS) + step
            sum_square = T.alloc_local((BLOCK_P,), "float32")
            T.clear(sum_square)
            for c in T.serial(C):
                for p in T.serial(BLOCK_P):
                    sum_square[p] += X[b, c, bp * BLOCK_P + p] * X[b, c, bp * BLOCK_P + p]
            for p in T.serial(BLOCK_P):
                sum_square[p] = 1.0 / T.sqrt(sum_square[p] / C + eps)
            for c in T.serial(C):
                for p in T.serial(BLOCK_P):
                    Y[b, c, bp * BLOCK_P + p] = X[b, c, bp * BLOCK_P + p] * sum_square[p]

    return tilelang.compile(rmsnorm, target="c", compile_flags=COMPILE_FLAGS)


class ModelNew(nn.Module):
    def __init__(self, num_features: int, eps: float = 1e-5):
        super().__init__()
        self.num_features = num_features
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, C, H, W = x.shape
        kernel = build_rmsnorm(B, C, H * W, self.eps)
        x = x.contiguous()
        y = torch.empty_like(x)
        flat, out = x.view(B, C, H * W), y.view(B, C, H * W)
        list(POOL.map(lambda part: kernel(flat, out, part), range(THREADS)))
        return y
