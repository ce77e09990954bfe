"""Mean of all elements: one program per BLOCK_SIZE elements, which adds its share to the result atomically."""

import torch
import triton
import triton.language as tl
from torch import nn

BLOCK_SIZE = 256
NUM_WARPS = 4


@triton.jit
def mean_kernel(x_ptr, out_ptr, numel, BLOCK_SIZE: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offs, mask=offs < numel, other=0.0)
    tl.atomic_add(out_ptr, tl.sum(x, axis=0) / numel)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        numel = x.numel()
        out = torch.zeros((), device=x.device, dtype=torch.float32)
        mean_kernel[(triton.cdiv(numel, BLOCK_SIZE),)](x, out, numel, BLOCK_SIZE=BLOCK_SIZE, num_warps=NUM_WARPS)
        return out
