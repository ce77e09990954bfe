"""Reads AMD's assembly as Triton leaves it: the resources that its metadata states, and its matrix instructions."""

from __future__ import annotations

import re
from typing import NamedTuple

# 'v_mfma_f32_16x16x16_f16', 'v_mfma_f32_32x32x8bf16_1k', 'v_mfma_f32_4x4x4_16b_f16', 'v_wmma_f32_16x16x16_fp8_fp8',
# 'v_mfma_scale_f32_16x16x128_f8f6f4': the first operand's type.
_MATRIX = re.compile(
    r"\bv_(mfma|smfmac|wmma|swmmac)_(?:scale_)?[a-z]+\d+_\d+x\d+x\d+(?:_\d+b)?_?([a-z]+\d+(?:[a-z]+\d+)*)"
)
_FIELD = r"^\s*(?:- )?\.{}:\s+(\d+)"


class CodeObject(NamedTuple):
    """Resources of a kernel, from the metadata that the driver reads."""

    registers: int
    """Vector registers per thread, accumulation registers included."""
    spills: int
    """Scratch memory in bytes per thread."""


def read_assembly(text: str) -> CodeObject:
    """Return the resources of the kernel in an assembly text. Raises `ValueError` where it states none."""
    return CodeObject(_field(text, "vgpr_count"), _field(text, "private_segment_fixed_size"))


def matrix_instructions(text: str) -> tuple[str, ...]:
    """Return the matrix instructions of an assembly text with the type of their operands, such as 'mfma bf16'."""
    return tuple(sorted({f"{kind} {operand}" for kind, operand in _MATRIX.findall(text)}))


def _field(text: str, name: str) -> int:
    found = re.search(_FIELD.format(name), text, re.MULTILINE)
    if found is None:
        raise ValueError(f"assembly without {name}")
    return int(found[1])
