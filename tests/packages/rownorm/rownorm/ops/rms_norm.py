"""RMS norm over the last axis, with an optional weight."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from .. import utils
from ..utils import math as device_math

WARPS = [2, 4, 8]


@triton.heuristics({"HAS_WEIGHT": lambda args: args["w_ptr"] is not None})
@triton.autotune(
    configs=[triton.Config({"BLOCK": block}, num_warps=warps) for block in (256, 1024) for warps in WARPS],
    key=["N"],
)
@triton.jit
def _rms_norm_kernel(x_ptr, w_ptr, y_ptr, N, eps, BLOCK: tl.constexpr, HAS_WEIGHT: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + columns, columns < N, other=0.0).to(tl.float32)
        squares += x * x
    scale = device_math.inverse_rms(tl.sum(squares, 0), N, eps)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        y = tl.load(x_ptr + row * N + columns, columns < N, other=0.0).to(tl.float32) * scale
        if HAS_WEIGHT:
            y *= tl.load(w_ptr + columns, columns < N, other=0.0).to(tl.float32)
        tl.store(y_ptr + row * N + columns, y.to(y_ptr.dtype.element_ty), columns < N)


@utils.contiguous_inputs
def rms_norm(x: torch.Tensor, weight: torch.Tensor | None = None, eps: float = 1e-6) -> torch.Tensor:
    """Return x divided by the root mean square of its rows, times the weight."""
    y = torch.empty_like(x)
    rows = x.numel() // x.shape[-1]
    _rms_norm_kernel[(rows,)](x, weight, y, x.shape[-1], eps)
    return y
