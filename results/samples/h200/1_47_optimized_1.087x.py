"""
Problem Name: 47_Sum_reduction_over_a_dimension
Evaluation Result: {'compiled': True, 'correctness': True, 'speedup_ratio': 1.0869, 'interval': [1.0856, 1.0887], 'latency_ms': 0.13184000551700592, 'reference_ms': 0.1432960033416748, 'start_latency_ms': 0.1560640037059784, 'samples': 349, 'seeds': [1879989249, 173839150, 382481271], 'max_abs_error': 5.340576171875e-05, 'tolerance': 0.0001, 'workload': 'default', 'sizes': {}, 'device': 'NVIDIA H200', 'python': '3.12.3', 'torch': '2.11.0+cu130', 'threads': '16', 'tilelang': '0.1.15', 'triton': '3.6.0', 'cuda': '13.0', 'tf32': 'off'}

Sum over one dimension, kept with size 1: the tensor is seen as (outer, reduced, inner) and each
program sums BLOCK_INNER columns of one outer index, BLOCK_REDUCE rows at a time.
"""

import torch
import triton
import triton.language as tl
from torch import nn

BLOCK_REDUCE = 16
BLOCK_INNER = 64
NUM_WARPS = 4

SEARCH_SPACE = {
    "BLOCK_REDUCE": [8, 16, 32, 64, 128],
    "BLOCK_INNER": [32, 64, 128, 256],
    "NUM_WARPS": [2, 4, 8],
}
CONSTRAINTS = ["BLOCK_REDUCE * BLOCK_INNER <= NUM_WARPS * 32 * 64"]


@triton.jit
def sum_kernel(x_ptr, y_ptr, n_reduce, n_inner, n_tiles, BLOCK_REDUCE: tl.constexpr, BLOCK_INNER: tl.constexpr):
    outer = (tl.program_id(0) // n_tiles).to(tl.int64)
    tile = tl.program_id(0) % n_tiles
    x_ptr += outer * n_reduce * n_inner
    rows = tl.arange(0, BLOCK_REDUCE)[:, None]
    cols = tile * BLOCK_INNER + tl.arange(0, BLOCK_INNER)

    acc = tl.zeros((BLOCK_REDUCE, BLOCK_INNER), dtype=tl.float32)
    for start in range(0, n_reduce, BLOCK_REDUCE):
        mask = (start + rows < n_reduce) & (cols[None, :] < n_inner)
        acc += tl.load(x_ptr + (start + rows) * n_inner + cols[None, :], mask=mask, other=0.0)
    tl.store(y_ptr + outer * n_inner + cols, tl.sum(acc, axis=0), mask=cols < n_inner)


class ModelNew(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        dim = self.dim % x.ndim
        n_outer = x.shape[:dim].numel()
        n_reduce = x.shape[dim]
        n_inner = x.shape[dim + 1 :].numel()
        y = torch.empty((*x.shape[:dim], 1, *x.shape[dim + 1 :]), device=x.device, dtype=x.dtype)
        n_tiles = triton.cdiv(n_inner, BLOCK_INNER)
        sum_kernel[(n_outer * n_tiles,)](
            x,
            y,
            n_reduce,
            n_inner,
            n_tiles,
            BLOCK_REDUCE=BLOCK_REDUCE,
            BLOCK_INNER=BLOCK_INNER,
            num_warps=NUM_WARPS,
        )
        return y
