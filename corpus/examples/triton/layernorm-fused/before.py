"""Layer normalization in three kernels: the mean of each row, its variance, and the normalized row."""

import torch
import triton
import triton.language as tl
from torch import nn

BLOCK_SIZE = 1024
NUM_WARPS = 8


@triton.jit
def mean_kernel(x_ptr, mean_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row.to(tl.int64) * n_cols
    total = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        total += tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0)
    tl.store(mean_ptr + row, tl.sum(total, axis=0) / n_cols)


@triton.jit
def variance_kernel(x_ptr, mean_ptr, variance_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row.to(tl.int64) * n_cols
    mean = tl.load(mean_ptr + row)
    squares = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0)
        deviation = tl.where(cols < n_cols, x - mean, 0.0)
        squares += deviation * deviation
    tl.store(variance_ptr + row, tl.sum(squares, axis=0) / n_cols)


@triton.jit
def normalize_kernel(x_ptr, y_ptr, weight_ptr, bias_ptr, mean_ptr, variance_ptr, n_cols, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row.to(tl.int64) * n_cols
    y_ptr += row.to(tl.int64) * n_cols
    mean = tl.load(mean_ptr + row)
    scale = 1.0 / tl.sqrt(tl.load(variance_ptr + row) + eps)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        mask = cols < n_cols
        x = tl.load(x_ptr + cols, mask=mask, other=0.0)
        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0)
        bias = tl.load(bias_ptr + cols, mask=mask, other=0.0)
        tl.store(y_ptr + cols, (x - mean) * scale * weight + bias, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, n_cols: int):
        super().__init__()
        self.ln = nn.LayerNorm(n_cols)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        n_rows, n_cols = x.shape
        mean = torch.empty(n_rows, device=x.device, dtype=torch.float32)
        variance = torch.empty_like(mean)
        launch = {"BLOCK_SIZE": BLOCK_SIZE, "num_warps": NUM_WARPS}
        mean_kernel[(n_rows,)](x, mean, n_cols, **launch)
        variance_kernel[(n_rows,)](x, mean, variance, n_cols, **launch)
        normalize_kernel[(n_rows,)](x, y, self.ln.weight, self.ln.bias, mean, variance, n_cols, self.ln.eps, **launch)
        return y
