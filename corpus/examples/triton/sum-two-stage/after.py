"""Mean of all elements in two stages: NUM_PROGRAMS programs stride over the tensor with a sum per lane and write one
partial sum each, then one program adds these. Each program does enough work to keep memory busy, nothing waits for an
atomic on one address, and the result is the same in every run. No help for tensors of a few thousand elements, where
the second launch costs more than it saves.
"""

import torch
import triton
import triton.language as tl
from torch import nn

BLOCK_SIZE = 4096
NUM_PROGRAMS = 1024
NUM_WARPS = 8

SEARCH_SPACE = {
    "BLOCK_SIZE": [1024, 2048, 4096, 8192],
    "NUM_PROGRAMS": [256, 512, 1024, 2048, 4096],
    "NUM_WARPS": [4, 8],
}


@triton.jit
def partial_sum_kernel(x_ptr, partial_ptr, numel, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(0)
    # 64-bit: the last step can pass 2^31 although numel does not.
    begin = pid.to(tl.int64) * BLOCK_SIZE
    step = tl.num_programs(0) * BLOCK_SIZE
    acc = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for start in range(begin, numel, step):
        offs = start + tl.arange(0, BLOCK_SIZE)
        acc += tl.load(x_ptr + offs, mask=offs < numel, other=0.0)
    tl.store(partial_ptr + pid, tl.sum(acc, axis=0))


@triton.jit
def mean_kernel(partial_ptr, out_ptr, n_partials, numel, BLOCK_SIZE: tl.constexpr):
    acc = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for start in range(0, n_partials, BLOCK_SIZE):
        offs = start + tl.arange(0, BLOCK_SIZE)
        acc += tl.load(partial_ptr + offs, mask=offs < n_partials, other=0.0)
    tl.store(out_ptr, tl.sum(acc, axis=0) / numel)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        numel = x.numel()
        n_partials = min(NUM_PROGRAMS, triton.cdiv(numel, BLOCK_SIZE))
        partials = torch.empty(n_partials, device=x.device, dtype=torch.float32)
        out = torch.empty((), device=x.device, dtype=torch.float32)
        partial_sum_kernel[(n_partials,)](x, partials, numel, BLOCK_SIZE=BLOCK_SIZE, num_warps=NUM_WARPS)
        mean_kernel[(1,)](partials, out, n_partials, numel, BLOCK_SIZE=1024, num_warps=NUM_WARPS)
        return out
