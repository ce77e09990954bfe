"""SwiGLU: silu(x @ gate.T) * (x @ up.T)."""

import torch
import triton

from gatedmlp.activations import silu_torch
from gatedmlp.kernels import swiglu_kernel


def swiglu(x, gate, up):
    M, K = x.shape
    N = gate.shape[0]
    y = torch.empty((M, N), device=x.device, dtype=x.dtype)

    def grid(meta):
        return triton.cdiv(M, meta["BLOCK_M"]), triton.cdiv(N, meta["BLOCK_N"])

    swiglu_kernel[grid](x, gate, up, y, M, N, K)
    return y


def swiglu_torch(x, gate, up):
    return (silu_torch(x.float() @ gate.float().T) * (x.float() @ up.float().T)).to(x.dtype)
