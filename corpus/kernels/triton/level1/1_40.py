"""Layer normalization over the trailing dimensions: the statistics kernel splits each long row over
SPLITS programs, the normalization kernel merges these partial statistics and writes one block."""

import torch
import triton
import triton.language as tl
from torch import nn

BLOCK_SIZE = 2048
SPLITS = 32
NUM_WARPS = 4

SEARCH_SPACE = {
    "BLOCK_SIZE": [512, 1024, 2048, 4096, 8192],
    "SPLITS": [8, 16, 32, 64, 128],
    "NUM_WARPS": [4, 8],
}


@triton.jit
def layer_norm_stats_kernel(
    x_ptr, mean_ptr, m2_ptr, n_cols, split_size, SPLITS: tl.constexpr, BLOCK_SIZE: tl.constexpr
):
    pid = tl.program_id(0)
    x_ptr += (pid // SPLITS).to(tl.int64) * n_cols
    begin = (pid % SPLITS) * split_size
    end = tl.minimum(begin + split_size, n_cols)

    # Each block's own mean and squared deviations are merged (Chan's formula): unlike E[x^2] - E[x]^2
    # this does not cancel when the mean is large.
    count = 0.0
    mean = 0.0
    m2 = 0.0
    for start in range(begin, end, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        mask = cols < end
        x = tl.load(x_ptr + cols, mask=mask, other=0.0)
        block_count = tl.minimum(end - start, BLOCK_SIZE).to(tl.float32)
        block_mean = tl.sum(x, axis=0) / block_count
        deviation = tl.where(mask, x - block_mean, 0.0)
        delta = block_mean - mean
        new_count = count + block_count
        mean += delta * block_count / new_count
        m2 += tl.sum(deviation * deviation, axis=0) + delta * delta * count * block_count / new_count
        count = new_count
    tl.store(mean_ptr + pid, mean)
    tl.store(m2_ptr + pid, m2)


@triton.jit
def layer_norm_apply_kernel(
    x_ptr,
    y_ptr,
    weight_ptr,
    bias_ptr,
    mean_ptr,
    m2_ptr,
    n_cols,
    split_size,
    n_blocks,
    eps,
    SPLITS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    row = tl.program_id(0) // n_blocks
    block = tl.program_id(0) % n_blocks
    splits = tl.arange(0, SPLITS)
    # The last splits of a row can be short or empty.
    counts = tl.minimum(tl.maximum(n_cols - splits * split_size, 0), split_size).to(tl.float32)
    means = tl.load(mean_ptr + row * SPLITS + splits)
    m2s = tl.load(m2_ptr + row * SPLITS + splits)
    mean = tl.sum(counts * means, axis=0) / n_cols
    variance = tl.sum(m2s + counts * (means - mean) * (means - mean), axis=0) / n_cols
    scale = 1.0 / tl.sqrt(variance + eps)

    row_start = row.to(tl.int64) * n_cols
    cols = block * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(x_ptr + row_start + cols, mask=mask, other=0.0)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0)
    bias = tl.load(bias_ptr + cols, mask=mask, other=0.0)
    tl.store(y_ptr + row_start + cols, (x - mean) * scale * weight + bias, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, normalized_shape: tuple[int, ...]):
        super().__init__()
        self.ln = nn.LayerNorm(normalized_shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        n_cols = self.ln.weight.numel()
        n_rows = x.numel() // n_cols
        split_size = triton.cdiv(n_cols, SPLITS)
        n_blocks = triton.cdiv(n_cols, BLOCK_SIZE)
        mean = torch.empty((n_rows, SPLITS), device=x.device, dtype=torch.float32)
        m2 = torch.empty_like(mean)
        layer_norm_stats_kernel[(n_rows * SPLITS,)](
            x, mean, m2, n_cols, split_size, SPLITS=SPLITS, BLOCK_SIZE=BLOCK_SIZE, num_warps=NUM_WARPS
        )
        layer_norm_apply_kernel[(n_rows * n_blocks,)](
            x,
            y,
            self.ln.weight,
            self.ln.bias,
            mean,
            m2,
            n_cols,
            split_size,
            n_blocks,
            self.ln.eps,
            SPLITS=SPLITS,
            BLOCK_SIZE=BLOCK_SIZE,
            num_warps=NUM_WARPS,
        )
        return y
