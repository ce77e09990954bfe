"""Residual addition, then RMS normalization with one program per row."""

import torch
import triton
import triton.language as tl
from torch import nn

ADD_BLOCK = 1024
NUM_WARPS = 4


@triton.jit
def add_kernel(x_ptr, residual_ptr, total_ptr, numel, ADD_BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * ADD_BLOCK + tl.arange(0, ADD_BLOCK)
    mask = offs < numel
    total = tl.load(x_ptr + offs, mask=mask) + tl.load(residual_ptr + offs, mask=mask)
    tl.store(total_ptr + offs, total, mask=mask)


@triton.jit
def rms_norm_kernel(total_ptr, weight_ptr, y_ptr, dim, eps, BLOCK_DIM: tl.constexpr):
    row_start = tl.program_id(0).to(tl.int64) * dim
    cols = tl.arange(0, BLOCK_DIM)
    mask = cols < dim
    total = tl.load(total_ptr + row_start + cols, mask=mask, other=0.0).to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(total * total, axis=0) / dim + eps)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0)
    tl.store(y_ptr + row_start + cols, (total * scale * weight).to(tl.float16), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, residual = x.contiguous(), residual.contiguous()
        total = torch.empty_like(x)
        y = torch.empty_like(x)
        n_rows, dim = x.shape
        grid = (triton.cdiv(x.numel(), ADD_BLOCK),)
        add_kernel[grid](x, residual, total, x.numel(), ADD_BLOCK=ADD_BLOCK, num_warps=NUM_WARPS)
        rms_norm_kernel[(n_rows,)](
            total, self.weight, y, dim, self.eps, BLOCK_DIM=triton.next_power_of_2(dim), num_warps=NUM_WARPS
        )
        return y, total
