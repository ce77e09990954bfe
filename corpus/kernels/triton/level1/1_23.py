"""Softmax over the last dimension: one program per row, an online max-and-sum pass over blocks of
the row, then a second pass that writes the normalized values."""

import torch
import triton
import triton.language as tl
from torch import nn

BLOCK_SIZE = 2048
NUM_WARPS = 8

SEARCH_SPACE = {
    "BLOCK_SIZE": [512, 1024, 2048, 4096, 8192, 16384],
    "NUM_WARPS": [4, 8, 16],
}
CONSTRAINTS = ["BLOCK_SIZE <= NUM_WARPS * 32 * 64"]


@triton.jit
def softmax_kernel(x_ptr, y_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row_start = tl.program_id(0).to(tl.int64) * n_cols
    x_ptr += row_start
    y_ptr += row_start
    cols = tl.arange(0, BLOCK_SIZE)

    row_max = -float("inf")
    row_sum = 0.0
    for start in range(0, n_cols, BLOCK_SIZE):
        x = tl.load(x_ptr + start + cols, mask=start + cols < n_cols, other=-float("inf"))
        new_max = tl.maximum(row_max, tl.max(x, axis=0))
        # While only -inf has been seen, subtracting the maximum would give NaN.
        shift = tl.where(new_max == -float("inf"), 0.0, new_max)
        row_sum = row_sum * tl.exp(row_max - shift) + tl.sum(tl.exp(x - shift), axis=0)
        row_max = new_max

    for start in range(0, n_cols, BLOCK_SIZE):
        mask = start + cols < n_cols
        x = tl.load(x_ptr + start + cols, mask=mask, other=-float("inf"))
        tl.store(y_ptr + start + cols, tl.exp(x - row_max) / row_sum, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        n_rows, n_cols = x.shape
        softmax_kernel[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=NUM_WARPS)
        return y
