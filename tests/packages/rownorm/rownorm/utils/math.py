"""Functions of kernels."""

import triton
import triton.language as tl


@triton.jit
def inverse_rms(squares, N, eps):
    return 1.0 / tl.sqrt(squares / N + eps)
