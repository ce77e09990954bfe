"""Reads PTX: which matrix instructions it has, and whether two texts are the same machine code."""

from __future__ import annotations

import re

# 'wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16', 'mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32',
# 'tcgen05.mma.cta_group::1.kind::tf32', 'mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale': the first
# operand's type, or the kind.
_MATRIX = re.compile(
    r"\b(wgmma|mma|tcgen05)\.(?:mma_async|sync|mma)\b[^\n;]*?"
    r"\.(?:kind::|m\d+n\d+k\d+(?:\.(?:row|col)){0,2}+\.(?!kind)\w+\.)(\w+)"
)


def matrix_instructions(ptx: str) -> tuple[str, ...]:
    """Return the matrix instructions of a kernel's PTX with the type of their operands, such as 'wgmma bf16'."""
    return tuple(sorted({f"{kind} {operand}" for kind, operand in _MATRIX.findall(ptx)}))


def ptx_code(ptx: str, name: str) -> str:
    """PTX without what does not change the machine code: comments, line numbers, debug data, the kernel's name."""
    code = re.sub(r"//[^\n]*", "", ptx)
    code = re.sub(r"^\s*\.section\s+\.debug_\w+\s*\{[^}]*\}", "", code, flags=re.MULTILINE)
    code = re.sub(r"^\s*(\.loc|\.file)\s[^\n]*", "", code, flags=re.MULTILINE)
    code = re.sub(r"^\s*\$L__(tmp|func_|info_|debug_)\w*:", "", code, flags=re.MULTILINE)
    code = re.sub(rf"\b{re.escape(name)}(?=\b|_param)", "kernel", code)
    return "\n".join(line.strip() for line in code.splitlines() if line.strip())
