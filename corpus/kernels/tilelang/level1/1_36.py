"""RMS norm over channels of an NCHW tensor: a block holds all channels of a run of pixels in registers."""

import functools

import tilelang
import tilelang.language as T
import torch
from torch import nn

TARGET = "cuda"

BLOCK_P = 128
THREADS = 256

SEARCH_SPACE = {"BLOCK_P": [64, 128, 256], "THREADS": [128, 256, 512]}
CONSTRAINTS = ["BLOCK_P <= THREADS"]


@functools.lru_cache
def build(B, C, P, eps):
    @T.prim_func
    def rms_norm(x: T.Tensor((B, C, P), "float32"), y: T.Tensor((B, C, P), "float32")):
        with T.Kernel(T.ceildiv(P, BLOCK_P), B, threads=THREADS) as (bx, b):
            tile = T.alloc_fragment((C, BLOCK_P), "float32")
            square = T.alloc_fragment((C, BLOCK_P), "float32")
            rms = T.alloc_fragment((BLOCK_P,), "float32")
            T.copy(x[b, 0, bx * BLOCK_P], tile)
            for c, p in T.Parallel(C, BLOCK_P):
                square[c, p] = tile[c, p] * tile[c, p]
            T.reduce_sum(square, rms, dim=0)
            for p in T.Parallel(BLOCK_P):
                rms[p] = T.sqrt(rms[p] / C + eps)
            for c, p in T.Parallel(C, BLOCK_P):
                tile[c, p] = tile[c, p] / rms[p]
            T.copy(tile, y[b, 0, bx * BLOCK_P])

    return tilelang.compile(rms_norm, out_idx=[-1], target=TARGET)


class ModelNew(nn.Module):
    def __init__(self, num_features: int, eps: float = 1e-5):
        super().__init__()
        self.num_features = num_features
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, C = x.shape[:2]
        flat = x.contiguous().view(B, C, -1)
        return build(B, C, flat.shape[2], self.eps)(flat).view(x.shape)
