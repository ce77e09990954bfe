"""Whether a kernel's matrix products run on tensor cores: by its compiled code if known, else by its source."""

from __future__ import annotations

import re

from ...core import DeviceKernel, Kernel

_DOT = re.compile(r"\btl\.dot(?:_scaled)?\(")
_PRECISION = re.compile(r"\binput_precision\s*=\s*(?:\"(\w+)\"|'(\w+)'|(\w+))")
_GEMM = re.compile(r"\bT\.(?:wgmma_|tcgen05_)?gemm\w*\(")


def by_code(kernel: DeviceKernel) -> str:
    """Describe a kernel's tensor-core instructions, 'wgmma bf16', or their absence; empty if unknown."""
    if kernel.tensor_cores is None:
        return ""
    return f"tensor cores: {', '.join(kernel.tensor_cores)}" if kernel.tensor_cores else "no tensor-core instruction"


def by_source(kernel: Kernel) -> str:
    """Describe the matrix products in the source; empty for another language."""
    source = kernel.source
    if kernel.language.id == "triton":
        if not _DOT.search(source):
            return "by the source: no tl.dot, so no tensor cores"
        named = {
            double or single or str(kernel.config.get(name, name))
            for double, single, name in _PRECISION.findall(source)
        }
        if named == {"ieee"}:
            return 'by the source: input_precision="ieee", so fp32 products run on vector units, not on tensor cores'
        kinds = f" at input_precision {', '.join(sorted(named))}" if named else ""
        return f"by the source: tl.dot{kinds} on tensor cores"
    if kernel.language.id == "tilelang":
        used = _GEMM.search(source)
        return "by the source: T.gemm on tensor cores" if used else "by the source: no T.gemm, so no tensor cores"
    return ""
