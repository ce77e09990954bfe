"""Bias and GELU as one kernel: each element goes through sum, gate and product while it is in a register.

Separate kernels write what the next one reads, and a tensor larger than the caches goes to memory and back each
time. One pass reads the input and writes the output, no more. It does not help where a step needs a whole row's
result first, as a norm does, or where the function is so expensive that memory does not matter.
"""

import functools
import math

import tilelang
import tilelang.cpu.language as T
import torch
from torch import nn

# So that g++ vectorizes expf: no error codes, and __FAST_MATH__ for the C library's vector forms.
COMPILE_FLAGS = ["-O3", "-march=native", "-fno-math-errno -fno-trapping-math -fno-signed-zeros"]
COMPILE_FLAGS += ["-fassociative-math -freciprocal-math -D__FAST_MATH__"]


@functools.cache
def build_bias_gelu(M: int, N: int):
    scale = 2.0 * math.sqrt(2.0 / math.pi)

    @T.prim_func
    def bias_gelu(X: T.Tensor((M, N), "float32"), bias: T.Tensor((N,), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(M) as row:
            v = T.alloc_local((1,), "float32")
            for j in T.serial(N):
                v[0] = X[row, j] + bias[j]
                # 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2 u))
                Y[row, j] = v[0] / (1.0 + T.exp(-scale * (v[0] + 0.044715 * v[0] * v[0] * v[0])))

    return tilelang.compile(bias_gelu, out_idx=[-1], target="c", compile_flags=COMPILE_FLAGS)


class ModelNew(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        M, N = x.shape
        return build_bias_gelu(M, N)(x.contiguous(), self.bias)
