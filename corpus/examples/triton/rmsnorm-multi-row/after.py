"""RMS normalization with BLOCK_ROWS short rows per program and the residual addition in the same kernel. A row of 256
fp16 values is one warp's worth of 128-bit accesses: several rows keep all warps of a program at wide loads, and no row
is reduced across warps. The sum is normalized while it is in registers. No help for rows of a few thousand elements,
which fill a program by themselves.
"""

import torch
import triton
import triton.language as tl
from torch import nn

BLOCK_ROWS = 8
NUM_WARPS = 4

SEARCH_SPACE = {
    "BLOCK_ROWS": [1, 2, 4, 8, 16, 32],
    "NUM_WARPS": [1, 2, 4, 8],
}
CONSTRAINTS = ["BLOCK_ROWS <= NUM_WARPS * 8"]


@triton.jit
def add_rms_norm_kernel(
    x_ptr,
    residual_ptr,
    weight_ptr,
    y_ptr,
    total_ptr,
    n_rows,
    dim,
    eps,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
):
    rows = tl.program_id(0).to(tl.int64) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    cols = tl.arange(0, BLOCK_DIM)
    offs = rows[:, None] * dim + cols[None, :]
    mask = (rows[:, None] < n_rows) & (cols[None, :] < dim)
    total = tl.load(x_ptr + offs, mask=mask, other=0.0) + tl.load(residual_ptr + offs, mask=mask, other=0.0)
    tl.store(total_ptr + offs, total, mask=mask)
    total = total.to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(total * total, axis=1) / dim + eps)
    weight = tl.load(weight_ptr + cols, mask=cols < dim, other=0.0)
    tl.store(y_ptr + offs, (total * scale[:, None] * weight[None, :]).to(tl.float16), mask=mask)


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
        add_rms_norm_kernel[(triton.cdiv(n_rows, BLOCK_ROWS),)](
            x,
            residual,
            self.weight,
            y,
            total,
            n_rows,
            dim,
            self.eps,
            BLOCK_ROWS=BLOCK_ROWS,
            BLOCK_DIM=triton.next_power_of_2(dim),
            num_warps=NUM_WARPS,
        )
        return y, total
