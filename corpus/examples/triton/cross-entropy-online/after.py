"""Cross entropy from one pass over the logits: an online logsumexp with a maximum and a sum per lane, from which the
target's logit, loaded by its index, is subtracted. The log-softmax, as large as the logits, is neither computed nor
stored. No help where the log-probabilities themselves are wanted, and little for vocabularies of a few thousand, whose
rows fit into registers.
"""

import torch
import triton
import triton.language as tl
from torch import nn

BLOCK_SIZE = 2048
NUM_WARPS = 8

SEARCH_SPACE = {
    "BLOCK_SIZE": [1024, 2048, 4096, 8192],
    "NUM_WARPS": [4, 8, 16],
}
CONSTRAINTS = ["BLOCK_SIZE <= NUM_WARPS * 32 * 32"]


@triton.jit
def cross_entropy_kernel(x_ptr, target_ptr, loss_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row.to(tl.int64) * n_cols
    cols = tl.arange(0, BLOCK_SIZE)

    # Finite, so that a lane that has seen nothing but -inf does not subtract -inf from -inf, which is NaN.
    lane_max = tl.full((BLOCK_SIZE,), -3.0e38, dtype=tl.float32)
    lane_sum = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK_SIZE):
        x = tl.load(x_ptr + start + cols, mask=start + cols < n_cols, other=-float("inf"))
        new_max = tl.maximum(lane_max, x)
        lane_sum = lane_sum * tl.exp(lane_max - new_max) + tl.exp(x - new_max)
        lane_max = new_max
    row_max = tl.max(lane_max, axis=0)
    row_sum = tl.sum(lane_sum * tl.exp(lane_max - row_max), axis=0)

    target_logit = tl.load(x_ptr + tl.load(target_ptr + row))
    tl.store(loss_ptr + row, row_max + tl.log(row_sum) - target_logit)


class ModelNew(nn.Module):
    def forward(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        logits = logits.contiguous()
        n_rows, n_cols = logits.shape
        loss = torch.empty(n_rows, device=logits.device, dtype=logits.dtype)
        cross_entropy_kernel[(n_rows,)](logits, targets, loss, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=NUM_WARPS)
        return loss
