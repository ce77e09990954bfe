"""ReLU over the flattened tensor, one block of BLOCK elements per grid step."""

import functools

import tilelang
import tilelang.cpu.language as T
import torch
from torch import nn

COMPILE_FLAGS = ["-O3", "-march=native"]

BLOCK = 1024

SEARCH_SPACE = {"BLOCK": [256, 512, 1024, 2048, 4096, 8192, 16384]}


@functools.cache
def build_relu(L: int):
    @T.prim_func
    def relu(X: T.Tensor((L,), "float32"), Y: T.Tensor((L,), "float32")):
        with T.Kernel(T.ceildiv(L, BLOCK)) as bx:
            for j in T.serial(BLOCK):
                Y[bx * BLOCK + j] = T.max(X[bx * BLOCK + j], 0.0)

    return tilelang.compile(relu, out_idx=[-1], target="c", compile_flags=COMPILE_FLAGS)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kernel = build_relu(x.numel())
        return kernel(x.contiguous().view(-1)).view(x.shape)
