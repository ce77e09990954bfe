"""int8 x int8, with a scale for each row and block of K, and for each block of N and K."""

import triton
import triton.language as tl

from ..configs import GROUP, product_configs

CONFIGS = product_configs()
CONFIGS.append(triton.Config({"BLOCK_M": 32, "BLOCK_N": 32}, num_warps=2, num_stages=2))
BLOCK_K = tl.constexpr(GROUP)


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.heuristics({"EVEN_M": lambda args: args["M"] % args["BLOCK_M"] == 0})
@triton.jit
def scaled_mm_kernel(
    a_ptr, b_ptr, a_scale_ptr, b_scale_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, EVEN_M: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    groups = tl.cdiv(K, BLOCK_K)
    inside = rows < M if not EVEN_M else rows >= 0
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for group in range(0, groups):
        inner = group * BLOCK_K + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + rows[:, None] * K + inner[None, :], inside[:, None] & (inner[None, :] < K), other=0)
        b = tl.load(
            b_ptr + columns[None, :] * K + inner[:, None], (columns[None, :] < N) & (inner[:, None] < K), other=0
        )
        a_scale = tl.load(a_scale_ptr + rows * groups + group, inside, other=0.0)
        b_scale = tl.load(b_scale_ptr + (columns // BLOCK_K) * groups + group, columns < N, other=0.0)
        total += tl.dot(a, b).to(tl.float32) * a_scale[:, None] * b_scale[None, :]
    at = rows[:, None] * N + columns[None, :]
    tl.store(c_ptr + at, total.to(c_ptr.dtype.element_ty), inside[:, None] & (columns[None, :] < N))
