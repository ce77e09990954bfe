"""PyTorch's own product of block-scaled fp8, `torch._scaled_mm`, as a second reference for the tuned kernel.

It is what engines run on Hopper where they do not use CUTLASS or DeepGEMM directly. It takes the scales of A stored
column by column, as engines make them for it, so its problem has such inputs, and a kernel that reads them.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ...core import DeviceLimits, PythonKernel, TorchProblem

NAME = "torch._scaled_mm"
ABSENT = f"{NAME} with block scales needs a CUDA GPU of compute capability 9.0: nothing is compared with it"
_FORWARD = (
    "    def forward(self, A: torch.Tensor, B: torch.Tensor, As: torch.Tensor, Bs: torch.Tensor) -> torch.Tensor:\n"
)
_CALL = """        if A.is_cuda and A.dtype == torch.float8_e4m3fn:
            out = getattr(torch, OUT)
            return torch._scaled_mm(A, B.t(), scale_a=As, scale_b=Bs.t(), out_dtype=out)
        # In fp64, and where there is no such product.
"""
_SCALES, _COLUMNS = "(torch.rand(M, blocks_k) + 0.5) * scale", "((torch.rand(blocks_k, M) + 0.5) * scale).t()"


def is_there(limits: DeviceLimits) -> bool:
    """Return whether the device has the library's product with these scales."""
    return limits.described.warp_groups


def library_problem(problem: TorchProblem) -> TorchProblem:
    """Return the problem of gemm/a8w8_blockscale with the library's call as its reference."""
    source = problem.source
    assert _FORWARD in source and _SCALES in source
    source = source.replace(_FORWARD, _FORWARD + _CALL).replace(_SCALES, _COLUMNS)
    return replace(problem, id=f"{problem.id}_scaled_mm", source=source, path="")


def library_kernel(kernel: PythonKernel) -> PythonKernel:
    """Return the shipped kernel of gemm/a8w8_blockscale in the plain form, for scales of A stored column by column."""
    source, rows = re.subn(r"as_ptr \+ offs_m \* blocks_k\b", "as_ptr + offs_m", kernel.source)
    source, blocks = re.subn(r"tl\.load\(as_ptrs \+ block\)", "tl.load(as_ptrs + block * M)", source)
    source, passed = re.subn(r"\bblocks_k, SCALED\b", "blocks_k, M, SCALED", source)
    assert rows and blocks and passed
    return replace(kernel, source=source)
