"""Both products and the gate in one pass over x."""

import triton
import triton.language as tl

from .activations import silu


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=4, num_stages=3),
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}, num_warps=4, num_stages=4),
        triton.Config({"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=8, num_stages=3),
    ],
    key=["M", "N", "K"],
)
@triton.heuristics({"EVEN_K": lambda args: args["K"] % args["BLOCK_K"] == 0})
@triton.jit
def swiglu_kernel(
    x_ptr, gate_ptr, up_ptr, y_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    gate = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    up = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        inside = inner < K if not EVEN_K else inner >= 0
        x = tl.load(x_ptr + rows[:, None] * K + inner[None, :], (rows[:, None] < M) & inside[None, :], other=0.0)
        at = columns[None, :] * K + inner[:, None]
        mask = (columns[None, :] < N) & inside[:, None]
        gate += tl.dot(x, tl.load(gate_ptr + at, mask, other=0.0))
        up += tl.dot(x, tl.load(up_ptr + at, mask, other=0.0))
    y = silu(gate) * up
    inside_y = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(y_ptr + rows[:, None] * N + columns[None, :], y.to(y_ptr.dtype.element_ty), inside_y)
