"""Layer norm of large samples: mean and squared deviation per chunk, combined, then normalization."""

import functools
import math

import tilelang
import tilelang.language as T
import torch
from torch import nn

TARGET = "cuda"

CHUNK = 4096
THREADS = 256

SEARCH_SPACE = {"CHUNK": [2048, 4096, 8192], "THREADS": [128, 256, 512]}
CONSTRAINTS = ["CHUNK <= 32 * THREADS"]


@functools.lru_cache
def build_chunk_stats(B, N, chunk):
    chunks = N // chunk

    @T.prim_func
    def chunk_stats(x: T.Tensor((B, N), "float32"), stats: T.Tensor((2, B, chunks), "float32")):
        with T.Kernel(chunks, B, threads=THREADS) as (bx, b):
            tile = T.alloc_fragment((chunk,), "float32")
            mean = T.alloc_fragment((1,), "float32")
            m2 = T.alloc_fragment((1,), "float32")
            T.copy(x[b, bx * chunk], tile)
            T.reduce_sum(tile, mean, dim=0)
            for i in T.Parallel(1):
                mean[i] = mean[i] / chunk
            for j in T.Parallel(chunk):
                tile[j] = (tile[j] - mean[0]) * (tile[j] - mean[0])
            T.reduce_sum(tile, m2, dim=0)
            for i in T.Parallel(1):
                stats[0, b, bx] = mean[i]
                stats[1, b, bx] = m2[i]

    return tilelang.compile(chunk_stats, out_idx=[-1], target=TARGET)


@functools.lru_cache
def build_combine(B, N, chunks, eps):
    @T.prim_func
    def combine(stats: T.Tensor((2, B, chunks), "float32"), moments: T.Tensor((2, B), "float32")):
        with T.Kernel(B, threads=128) as b:
            means = T.alloc_fragment((chunks,), "float32")
            m2s = T.alloc_fragment((chunks,), "float32")
            mean = T.alloc_fragment((1,), "float32")
            m2 = T.alloc_fragment((1,), "float32")
            T.copy(stats[0, b, 0], means)
            T.copy(stats[1, b, 0], m2s)
            T.reduce_sum(means, mean, dim=0)
            for i in T.Parallel(1):
                mean[i] = mean[i] / chunks
            # Chunks are equally long: M2 = sum of M2_c + (N / chunks) (mean_c - mean)^2.
            for c in T.Parallel(chunks):
                m2s[c] += (means[c] - mean[0]) * (means[c] - mean[0]) * (N // chunks)
            T.reduce_sum(m2s, m2, dim=0)
            for i in T.Parallel(1):
                moments[0, b] = mean[i]
                moments[1, b] = T.rsqrt(m2[i] / N + eps)

    return tilelang.compile(combine, out_idx=[-1], target=TARGET)


@functools.lru_cache
def build_normalize(B, N):
    @T.prim_func
    def normalize(
        x: T.Tensor((B, N), "float32"),
        moments: T.Tensor((2, B), "float32"),
        weight: T.Tensor((N,), "float32"),
        bias: T.Tensor((N,), "float32"),
        y: T.Tensor((B, N), "float32"),
    ):
        # Samples run fastest, so that blocks which share a piece of weight and bias run together.
        with T.Kernel(B, T.ceildiv(N, CHUNK), threads=THREADS) as (b, by):
            for j in T.Parallel(CHUNK):
                i = by * CHUNK + j
                y[b, i] = (x[b, i] - moments[0, b]) * moments[1, b] * weight[i] + bias[i]

    return tilelang.compile(normalize, out_idx=[-1], target=TARGET)


class ModelNew(nn.Module):
    def __init__(self, normalized_shape: tuple[int, ...]):
        super().__init__()
        self.ln = nn.LayerNorm(normalized_shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        N = self.ln.weight.numel()
        flat = x.contiguous().view(-1, N)
        B = flat.shape[0]
        chunk = math.gcd(N, CHUNK)
        stats = build_chunk_stats(B, N, chunk)(flat)
        moments = build_combine(B, N, N // chunk, self.ln.eps)(stats)
        y = build_normalize(B, N)(flat, moments, self.ln.weight.view(-1), self.ln.bias.view(-1))
        return y.view(x.shape)
