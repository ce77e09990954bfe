"""Transposed 3-d convolution (stride 1, no padding) and ReLU as an implicit matrix product over kernel taps
and input channels, then group normalization: a block per group for the moments, and an elementwise kernel.
"""

import functools

import tilelang
import tilelang.language as T
import torch
from torch import nn

TARGET = "cuda"

BLOCK_C = 64
BLOCK_P = 128
BLOCK_K = 16
THREADS = 128
UNROLL_K = 4
NORM_BLOCK = 4096
NORM_THREADS = 512
MIN_BLOCKS = 4

SEARCH_SPACE = {
    "BLOCK_C": [32, 64],
    "BLOCK_P": [64, 128, 256],
    "BLOCK_K": [8, 16, 32],
    "THREADS": [128, 256],
    "UNROLL_K": [2, 4, 8],
    "MIN_BLOCKS": [1, 2, 4],
    "NORM_BLOCK": [2048, 4096, 8192],
    "NORM_THREADS": [256, 512, 1024],
}
CONSTRAINTS = [
    "BLOCK_C * BLOCK_P <= 64 * THREADS",
    "BLOCK_C * BLOCK_P >= 16 * THREADS",
    "MIN_BLOCKS * THREADS <= 512",
]


@functools.lru_cache
def build_conv_relu(B, IC, OC, D, H, W, kernel):
    OD, OH, OW = D + kernel - 1, H + kernel - 1, W + kernel - 1
    size = OD * OH * OW
    chunks = (IC + BLOCK_K - 1) // BLOCK_K
    # A thread owns four neighbouring positions of every (THREADS / columns)-th channel.
    columns = BLOCK_P // 4
    rows = THREADS // columns
    layout = T.Fragment(
        (BLOCK_C, BLOCK_P), forward_fn=lambda i, j: (i % rows * columns + j // 4, i // rows * 4 + j % 4)
    )

    @T.prim_func
    def conv_relu(
        x: T.Tensor((B, IC, D, H, W), "float32"),
        weight: T.Tensor((kernel**3, OC, IC), "float32"),
        y: T.Tensor((B, OC, size), "float32"),
    ):
        with T.Kernel(T.ceildiv(size, BLOCK_P), T.ceildiv(OC, BLOCK_C), B, threads=THREADS) as (bp, bc, b):
            x_shared = T.alloc_shared((BLOCK_K, BLOCK_P), "float32")
            w_shared = T.alloc_shared((BLOCK_C, BLOCK_K), "float32")
            acc = T.alloc_fragment((BLOCK_C, BLOCK_P), "float32")
            T.annotate_layout({acc: layout})
            # Bounds the registers per thread, so that the blocks of one SM hide each other's barriers.
            T.annotate_min_blocks_per_sm(MIN_BLOCKS)
            T.clear(acc)
            for tap in T.serial(kernel**3):
                for chunk in T.serial(chunks):
                    for k, p in T.Parallel(BLOCK_K, BLOCK_P):
                        position = bp * BLOCK_P + p
                        ic = chunk * BLOCK_K + k
                        d = position // (OH * OW) - tap // (kernel * kernel)
                        h = position // OW % OH - tap // kernel % kernel
                        w = position % OW - tap % kernel
                        x_shared[k, p] = T.if_then_else(
                            (ic < IC) & (d >= 0) & (d < D) & (h >= 0) & (h < H) & (w >= 0) & (w < W),
                            x[b, ic, d, h, w],
                            0.0,
                        )
                    T.copy(weight[tap, bc * BLOCK_C, chunk * BLOCK_K], w_shared, disable_tma=True)
                    # T.gemm would round fp32 operands to TF32. Unrolling lets w be read four k at a time.
                    for k in T.unroll(BLOCK_K, unroll_factor=UNROLL_K):
                        for i, j in T.Parallel(BLOCK_C, BLOCK_P):
                            acc[i, j] += w_shared[i, k] * x_shared[k, j]
            for i, j in T.Parallel(BLOCK_C, BLOCK_P):
                acc[i, j] = T.max(acc[i, j], 0.0)
            T.copy(acc, y[b, bc * BLOCK_C, bp * BLOCK_P])

    return tilelang.compile(conv_relu, out_idx=[-1], target=TARGET)


@functools.lru_cache
def build_group_moments(groups, size, eps):
    @T.prim_func
    def group_moments(x: T.Tensor((groups, size), "float32"), moments: T.Tensor((2, groups), "float32")):
        with T.Kernel(groups, threads=NORM_THREADS) as group:
            partial = T.alloc_fragment((NORM_BLOCK,), "float32")
            mean = T.alloc_fragment((1,), "float32")
            variance = T.alloc_fragment((1,), "float32")
            T.clear(partial)
            for block in T.serial(T.ceildiv(size, NORM_BLOCK)):
                for j in T.Parallel(NORM_BLOCK):
                    i = block * NORM_BLOCK + j
                    partial[j] += T.if_then_else(i < size, x[group, i], 0.0)
            T.reduce_sum(partial, mean, dim=0)
            for i in T.Parallel(1):
                mean[i] = mean[i] / size
            T.clear(partial)
            for block in T.serial(T.ceildiv(size, NORM_BLOCK)):
                for j in T.Parallel(NORM_BLOCK):
                    i = block * NORM_BLOCK + j
                    deviation = T.if_then_else(i < size, x[group, i] - mean[0], 0.0)
                    partial[j] += deviation * deviation
            T.reduce_sum(partial, variance, dim=0)
            for i in T.Parallel(1):
                moments[0, group] = mean[i]
                moments[1, group] = T.rsqrt(variance[i] / size + eps)

    return tilelang.compile(group_moments, out_idx=[-1], target=TARGET)


@functools.lru_cache
def build_normalize(B, C, G, size):
    @T.prim_func
    def normalize(
        x: T.Tensor((B, C, size), "float32"),
        moments: T.Tensor((2, B, G), "float32"),
        weight: T.Tensor((C,), "float32"),
        bias: T.Tensor((C,), "float32"),
        y: T.Tensor((B, C, size), "float32"),
    ):
        with T.Kernel(T.ceildiv(size, NORM_BLOCK), C, B, threads=NORM_THREADS) as (bp, c, b):
            group = c // (C // G)
            for j in T.Parallel(NORM_BLOCK):
                i = bp * NORM_BLOCK + j
                y[b, c, i] = (x[b, c, i] - moments[0, b, group]) * moments[1, b, group] * weight[c] + bias[c]

    return tilelang.compile(normalize, out_idx=[-1], target=TARGET)


class ModelNew(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, groups: int, bias: bool = False):
        super().__init__()
        if bias:
            raise NotImplementedError("only the convolution without a bias")
        self.conv_transpose = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, bias=bias)
        self.group_norm = nn.GroupNorm(num_groups=groups, num_channels=out_channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, IC, D, H, W = x.shape
        conv, norm = self.conv_transpose, self.group_norm
        OC, G, kernel = conv.out_channels, norm.num_groups, conv.kernel_size[0]
        weight = conv.weight.permute(2, 3, 4, 1, 0).contiguous().view(kernel**3, OC, IC)
        conv_y = build_conv_relu(B, IC, OC, D, H, W, kernel)(x.contiguous(), weight)
        moments = build_group_moments(B * G, conv_y.numel() // (B * G), norm.eps)(conv_y.view(B * G, -1))
        y = build_normalize(B, OC, G, conv_y.shape[2])(conv_y, moments.view(2, B, G), norm.weight, norm.bias)
        return y.view(B, OC, D + kernel - 1, H + kernel - 1, W + kernel - 1)
