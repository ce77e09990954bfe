"""Matrix product C = A B in fp16: one program per multiprocessor, each computing many BLOCK_M x BLOCK_N tiles of C.

The loops over tiles and over K are flattened into one, so the loads of the next tile start while the last one is still
being stored; with one program per tile the pipeline fills and drains anew for each. Tensor descriptors move whole
tiles with the tensor memory accelerator, without address arithmetic, and leave out what lies beyond the edges.
Little help where K is long. Descriptors need rows of a multiple of 16 bytes.
"""

import torch
import triton
import triton.language as tl
from torch import nn
from triton.tools.tensor_descriptor import TensorDescriptor

BLOCK_M = 128
BLOCK_N = 256
BLOCK_K = 64
NUM_WARPS = 8
NUM_STAGES = 3

SEARCH_SPACE = {
    "BLOCK_M": [64, 128],
    "BLOCK_N": [128, 256],
    "BLOCK_K": [32, 64],
    "NUM_WARPS": [4, 8],
    "NUM_STAGES": [2, 3, 4],
}
CONSTRAINTS = [
    "BLOCK_M * BLOCK_N <= NUM_WARPS * 32 * 128",
    "(BLOCK_M + BLOCK_N) * BLOCK_K * 2 * NUM_STAGES + BLOCK_M * BLOCK_N * 2 <= 226 * 1024",
]


@triton.jit
def matmul_kernel(
    a_desc,
    b_desc,
    c_desc,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    # Tiles are numbered down the columns of C.
    m_tiles = tl.cdiv(M, BLOCK_M)
    n_tiles = tl.cdiv(N, BLOCK_N)
    n_programs = tl.num_programs(0)
    # The epilogue counts its tiles itself: the loads of a flattened loop are already at the next tile by then.
    stored = tl.program_id(0) - n_programs
    for tile in tl.range(tl.program_id(0), m_tiles * n_tiles, n_programs, flatten=True):
        off_m = tile % m_tiles * BLOCK_M
        off_n = tile // m_tiles * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, tl.cdiv(K, BLOCK_K)):
            a = a_desc.load([off_m, k * BLOCK_K])
            b = b_desc.load([k * BLOCK_K, off_n])
            acc = tl.dot(a, b, acc)
        stored += n_programs
        c_desc.store([stored % m_tiles * BLOCK_M, stored // m_tiles * BLOCK_N], acc.to(tl.float16))


def multiprocessors(device: torch.device) -> int:
    if device.type != "cuda":
        return 2  # The interpreter's programs run one after the other.
    return torch.cuda.get_device_properties(device).multi_processor_count


class ModelNew(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        A, B = A.contiguous(), B.contiguous()
        M, K = A.shape
        N = B.shape[1]
        C = torch.empty((M, N), device=A.device, dtype=A.dtype)
        n_tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
        grid = (min(multiprocessors(A.device), n_tiles),)
        matmul_kernel[grid](
            TensorDescriptor.from_tensor(A, [BLOCK_M, BLOCK_K]),
            TensorDescriptor.from_tensor(B, [BLOCK_K, BLOCK_N]),
            TensorDescriptor.from_tensor(C, [BLOCK_M, BLOCK_N]),
            M,
            N,
            K,
            BLOCK_M=BLOCK_M,
            BLOCK_N=BLOCK_N,
            BLOCK_K=BLOCK_K,
            num_warps=NUM_WARPS,
            num_stages=NUM_STAGES,
        )
        return C
