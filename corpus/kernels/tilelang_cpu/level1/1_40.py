"""Layer normalization: one sample per grid step, with a mean pass, a variance pass and a normalizing pass."""

import functools
import math

import tilelang
import tilelang.cpu.language as T
import torch
from torch import nn

COMPILE_FLAGS = ["-O3", "-march=native"]


@functools.cache
def build_layernorm(B: int, C: int, P: int, eps: float):
    N = C * P

    @T.prim_func
    def layernorm(
        X: T.Tensor((B, C, P), "float32"),
        weight: T.Tensor((C, P), "float32"),
        bias: T.Tensor((C, P), "float32"),
        Y: T.Tensor((B, C, P), "float32"),
    ):
        with T.Kernel(B) as b:
            # A partial sum for each channel: one fp32 sum over a whole sample loses too many digits.
            part = T.alloc_local((1,), "float32")
            mean = T.alloc_local((1,), "float32")
            var = T.alloc_local((1,), "float32")

            mean[0] = 0.0
            for c in T.serial(C):
                part[0] = 0.0
                for p in T.serial(P):
                    part[0] += X[b, c, p]
                mean[0] += part[0]
            mean[0] = mean[0] / N

            var[0] = 0.0
            for c in T.serial(C):
                part[0] = 0.0
                for p in T.serial(P):
                    part[0] += (X[b, c, p] - mean[0]) * (X[b, c, p] - mean[0])
                var[0] += part[0]
            var[0] = var[0] / N

            for c, p in T.grid(C, P):
                Y[b, c, p] = (X[b, c, p] - mean[0]) / T.sqrt(var[0] + eps) * weight[c, p] + bias[c, p]

    return tilelang.compile(layernorm, out_idx=[-1], target="c", compile_flags=COMPILE_FLAGS)


class ModelNew(nn.Module):
    def __init__(self, normalized_shape: tuple[int, ...]):
        super().__init__()
        self.ln = nn.LayerNorm(normalized_shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        C = self.ln.normalized_shape[0]
        P = math.prod(self.ln.normalized_shape[1:])
        B = x.numel() // (C * P)
        kernel = build_layernorm(B, C, P, self.ln.eps)
        y = kernel(x.contiguous().view(B, C, P), self.ln.weight.view(C, P), self.ln.bias.view(C, P))
        return y.view(x.shape)
