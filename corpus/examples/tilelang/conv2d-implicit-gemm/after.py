"""Convolution as an implicit matrix product: rows are positions, columns output channels, K is taps times channels.

The matrix of patches is never stored: its tiles are gathered into shared memory, with zeros for the padding, and go to
the tensor cores with the weights of the same tap. A value that was loaded is used for all BLOCK_C output channels.
No help with few input or output channels (the first layer of a network), or for depthwise convolutions.
"""

import functools

import tilelang
import tilelang.language as T
import torch
from torch import nn

TARGET = "cuda"

BLOCK_P = 128
BLOCK_C = 128
BLOCK_K = 64
THREADS = 256
NUM_STAGES = 3

SEARCH_SPACE = {
    "BLOCK_P": [64, 128],
    "BLOCK_C": [64, 128],
    "BLOCK_K": [32, 64],
    "THREADS": [128, 256],
    "NUM_STAGES": [2, 3, 4],
}
CONSTRAINTS = ["BLOCK_P * BLOCK_C <= 128 * THREADS"]


@functools.lru_cache
def build(B, H, W, IC, OC, kernel, padding):
    OH, OW = H + 2 * padding - kernel + 1, W + 2 * padding - kernel + 1
    size = B * OH * OW
    chunks = -(-IC // BLOCK_K)

    @T.prim_func
    def conv(
        x: T.Tensor((B, H, W, IC), "float16"),
        weight: T.Tensor((kernel * kernel, IC, OC), "float16"),
        y: T.Tensor((size, OC), "float16"),
    ):
        with T.Kernel(T.ceildiv(OC, BLOCK_C), T.ceildiv(size, BLOCK_P), threads=THREADS) as (bx, by):
            x_shared = T.alloc_shared((BLOCK_P, BLOCK_K), "float16")
            w_shared = T.alloc_shared((BLOCK_K, BLOCK_C), "float16")
            acc = T.alloc_fragment((BLOCK_P, BLOCK_C), "float32")
            T.clear(acc)
            for step in T.Pipelined(0, kernel * kernel * chunks, num_stages=NUM_STAGES):
                for i, k in T.Parallel(BLOCK_P, BLOCK_K):
                    position = by * BLOCK_P + i
                    ic = step % chunks * BLOCK_K + k
                    h = position // OW % OH + step // chunks // kernel - padding
                    w = position % OW + step // chunks % kernel - padding
                    inside = (position < size) & (ic < IC) & (h >= 0) & (h < H) & (w >= 0) & (w < W)
                    x_shared[i, k] = T.if_then_else(inside, x[position // (OH * OW), h, w, ic], T.float16(0))
                # Not TMA, which the gather cannot use: no warp specialization, so that two blocks share an SM.
                T.copy(weight[step // chunks, step % chunks * BLOCK_K, bx * BLOCK_C], w_shared, disable_tma=True)
                T.gemm(x_shared, w_shared, acc)
            T.copy(acc, y[by * BLOCK_P, bx * BLOCK_C])

    return tilelang.compile(conv, out_idx=[-1], target=TARGET)


class ModelNew(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, padding: int):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, padding=padding, bias=False, dtype=torch.float16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, H, W, IC = x.shape
        OC, kernel, padding = self.conv.out_channels, self.conv.kernel_size[0], self.conv.padding[0]
        # (taps, input channels, output channels): what neighbouring threads read lies side by side.
        weight = self.conv.weight.permute(2, 3, 1, 0).reshape(kernel * kernel, IC, OC)
        OH, OW = H + 2 * padding - kernel + 1, W + 2 * padding - kernel + 1
        return build(B, H, W, IC, OC, kernel, padding)(x.contiguous(), weight.contiguous()).view(B, OH, OW, OC)
