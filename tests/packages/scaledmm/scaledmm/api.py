"""The operator and its reference."""

import logging

import torch
import triton

from .configs import GROUP

logger = logging.getLogger(__name__)


def scaled_mm(a, b, a_scale, b_scale, dtype=torch.float16):
    """Return a @ b.T, each block of 128 elements of K scaled."""
    from .kernels.product import scaled_mm_kernel

    M, K = a.shape
    N = b.shape[0]
    if K % GROUP:
        logger.warning("K is no multiple of %d", GROUP)
    c = torch.empty((M, N), device=a.device, dtype=dtype)

    def grid(meta):
        return triton.cdiv(M, meta["BLOCK_M"]), triton.cdiv(N, meta["BLOCK_N"])

    scaled_mm_kernel[grid](a, b, a_scale, b_scale, c, M, N, K)
    return c


def scaled_mm_torch(a, b, a_scale, b_scale, dtype=torch.float16):
    wide_a = a.float() * a_scale.repeat_interleave(GROUP, 1)
    wide_b = b.float() * b_scale.repeat_interleave(GROUP, 0).repeat_interleave(GROUP, 1)
    return (wide_a @ wide_b.T).to(dtype)
