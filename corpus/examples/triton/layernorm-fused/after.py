"""Layer normalization in one kernel that holds its row in registers: mean, variance and result come from one read.
The three kernels before each fetched the whole tensor from memory. No help for rows of more than some ten thousand
elements, which do not fit into one program's registers, nor for tensors that stay in the L2 cache between kernels.
"""

import torch
import triton
import triton.language as tl
from torch import nn

NUM_WARPS = 8

SEARCH_SPACE = {"NUM_WARPS": [2, 4, 8, 16]}


@triton.jit
def layer_norm_kernel(x_ptr, y_ptr, weight_ptr, bias_ptr, n_cols, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row.to(tl.int64) * n_cols
    y_ptr += row.to(tl.int64) * n_cols
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(x_ptr + cols, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / n_cols
    deviation = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(deviation * deviation, axis=0) / n_cols
    scale = 1.0 / tl.sqrt(variance + eps)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0)
    bias = tl.load(bias_ptr + cols, mask=mask, other=0.0)
    tl.store(y_ptr + cols, deviation * scale * weight + bias, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, n_cols: int):
        super().__init__()
        self.ln = nn.LayerNorm(n_cols)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        n_rows, n_cols = x.shape
        layer_norm_kernel[(n_rows,)](
            x,
            y,
            self.ln.weight,
            self.ln.bias,
            n_cols,
            self.ln.eps,
            BLOCK_SIZE=triton.next_power_of_2(n_cols),
            num_warps=NUM_WARPS,
        )
        return y
