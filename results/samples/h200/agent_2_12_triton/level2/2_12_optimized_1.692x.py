"""
Problem Name: 12_Gemm_Multiply_LeakyReLU
Evaluation Result: {'compiled': True, 'correctness': True, 'speedup_ratio': 1.6916, 'interval': [1.6903, 1.6933], 'latency_ms': 0.41014400124549866, 'reference_ms': 0.693807989358902, 'start_latency_ms': 2.5307199954986572, 'samples': 248, 'seeds': [1353173838, 1767309749, 301612209], 'max_abs_error': 1.9550323486328125e-05, 'tolerance': 0.0001, 'workload': 'default', 'sizes': {}, 'device': 'NVIDIA H200', 'python': '3.12.3', 'torch': '2.11.0+cu130', 'threads': '16', 'tilelang': '0.1.15', 'triton': '3.6.0', 'cuda': '13.0', 'tf32': 'off', 'uuid': '91ceb57b-0475-5397-aaff-3cc0e7b95297'}

Linear layer with the bias, the multiplier and the leaky ReLU applied to the accumulator: one
program per BLOCK_M x BLOCK_N tile of the output, looping over the input features.
"""

import torch
import triton
import triton.language as tl
from torch import nn

BLOCK_M = 128
BLOCK_N = 64
BLOCK_K = 32
NUM_WARPS = 4
NUM_STAGES = 3

SEARCH_SPACE = {
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [16, 32, 64],
    "NUM_WARPS": [4, 8],
    "NUM_STAGES": [2, 3, 4],
}
CONSTRAINTS = [
    "BLOCK_M * BLOCK_N <= NUM_WARPS * 32 * 64",
    "(BLOCK_M + BLOCK_N) * BLOCK_K * 4 * NUM_STAGES <= 227 * 1024",
]


@triton.jit
def linear_leaky_relu_kernel(
    x_ptr,
    w_ptr,
    bias_ptr,
    y_ptr,
    M,
    N,
    K,
    multiplier,
    negative_slope,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    WHOLE_TILES: tl.constexpr,
):
    start_m = tl.program_id(0) * BLOCK_M
    start_n = tl.program_id(1) * BLOCK_N
    offs_m = start_m + tl.arange(0, BLOCK_M)
    offs_n = start_n + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    mask_m = offs_m[:, None] < M
    mask_n = offs_n[None, :] < N

    # The weight is stored as (N, K); reading it with swapped indices gives the transposed tile.
    # Only the start of a tile needs 64 bits; the offsets within it stay as they are.
    x_tile = x_ptr + start_m.to(tl.int64) * K
    w_tile = w_ptr + start_n.to(tl.int64) * K
    x_offs = tl.arange(0, BLOCK_M)[:, None] * K + offs_k[None, :]
    w_offs = tl.arange(0, BLOCK_N)[None, :] * K + offs_k[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        if WHOLE_TILES:
            x = tl.load(x_tile + x_offs)
            w = tl.load(w_tile + w_offs)
        else:
            x = tl.load(x_tile + x_offs, mask=mask_m & (offs_k[None, :] < K - k), other=0.0)
            w = tl.load(w_tile + w_offs, mask=mask_n & (offs_k[:, None] < K - k), other=0.0)
        acc = tl.dot(x, w, acc, input_precision="tf32x3")
        x_tile += BLOCK_K
        w_tile += BLOCK_K

    bias = tl.load(bias_ptr + offs_n, mask=offs_n < N, other=0.0)
    y = (acc + bias[None, :]) * multiplier
    y = tl.where(y >= 0.0, y, y * negative_slope)
    tl.store(y_ptr + offs_m[:, None].to(tl.int64) * N + offs_n[None, :], y, mask=mask_m & mask_n)


class ModelNew(nn.Module):
    def __init__(self, in_features: int, out_features: int, multiplier: float, negative_slope: float):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features)
        self.multiplier = multiplier
        self.leaky_relu = nn.LeakyReLU(negative_slope)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        M, K = x.shape
        N = self.gemm.out_features
        y = torch.empty((M, N), device=x.device, dtype=x.dtype)
        grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))
        linear_leaky_relu_kernel[grid](
            x,
            self.gemm.weight,
            self.gemm.bias,
            y,
            M,
            N,
            K,
            self.multiplier,
            self.leaky_relu.negative_slope,
            BLOCK_M=BLOCK_M,
            BLOCK_N=BLOCK_N,
            BLOCK_K=BLOCK_K,
            WHOLE_TILES=M % BLOCK_M == N % BLOCK_N == K % BLOCK_K == 0,
            num_warps=NUM_WARPS,
            num_stages=NUM_STAGES,
        )
        return y
