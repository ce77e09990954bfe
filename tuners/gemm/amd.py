"""The products as AMD's compiler takes them: its own parameters, aiter's search space, tune_gemm's pruning rules.

The kernels' code is the same; options that NVIDIA's compiler refuses are added to their launches.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...core import PythonKernel, Value
from ...core.devices import Architecture, kind_of
from .fields import OF_COMPILER

LEFT_TO_COMPILER = {"waves_per_eu": 0, "kpack": 1, "matrix_instr_nonkdim": 0}
"""The compiler's options, with the values by which it chooses itself."""
OPTIONS = {name: OF_COMPILER[name] for name in LEFT_TO_COMPILER}
"""The constants that hold them."""
CACHE_MODIFIER = OF_COMPILER["cache_modifier"]
AITER: Mapping[str, Sequence[Value]] = {
    "NUM_STAGES": [1, 2, 3, 4],
    "BLOCK_SIZE_M": [32, 64, 128],
    "BLOCK_SIZE_N": [32, 64, 128],
    "BLOCK_SIZE_K": [128],
    "GROUP_SIZE_M": [1, 8, 16],
    "NUM_WARPS": [2, 4, 8],
    "SPLIT_K": [1, 2, 4],
    "WAVES_PER_EU": [2, 4, 8],
    "KPACK": [2],
    "MATRIX_INSTR_NONKDIM": [16],
    CACHE_MODIFIER: ["", ".cg"],
    "VARIANT": ["plain"],
}
"""The values that `get_configs_compute_bound` of aiter's tuner of gemm_a8w8_blockscale tries."""
TUNE_GEMM = (
    # No tile is smaller than the matrix instruction.
    "BLOCK_SIZE_M >= MATRIX_INSTR_NONKDIM and BLOCK_SIZE_N >= MATRIX_INSTR_NONKDIM",
    # The kernel need not mask K.
    "K % (SPLIT_K * BLOCK_SIZE_K) == 0",
    # K is cut where M or N is small only; the document has no numbers, these are the script's `need_split_k`.
    "SPLIT_K == 1 or ((M < 64 or N < 64) and K > 1024)",
    # 'Smaller' in the document; the script keeps a group that is as large as M.
    "GROUP_SIZE_M == 1 or GROUP_SIZE_M * BLOCK_SIZE_M <= M",
    # The document's rule for LDS; the script has its size instead, which is pruned by the architecture's.
    "BLOCK_SIZE_K != 128 or (BLOCK_SIZE_M != 128 and BLOCK_SIZE_N != 128)",
)
"""The rules by which tune_gemm's document prunes its space, with the numbers of its script (docs/amd.md)."""
_WMMA = 16
"""Rows of RDNA's only matrix instruction."""


def amd_kernel(kernel: PythonKernel, product: str, of: Architecture) -> PythonKernel:
    """Return a shipped product's kernel with AMD's parameters as constants, and their space.

    For 'a8w8_blockscale' the space is aiter's. For 'gemm' it is the kernel's own with the compiler's options, less what
    tune_gemm prunes; for 'moe' the same without these rules, since its kernels mask K.
    """
    source = kernel.source
    source, launches = re.subn(
        r'("num_stages": NUM_STAGES,|num_stages=NUM_STAGES,)',
        lambda found: f"{found[0]} {_launched('=' if '=' in found[0] else ':')}",
        source,
    )
    if not launches:
        raise ValueError(f"{kernel.name} has no launch that takes num_stages")
    lines = [f"{OPTIONS[name]} = {value}" for name, value in LEFT_TO_COMPILER.items()]
    if product == "a8w8_blockscale":
        lines.append(f'{CACHE_MODIFIER} = tl.constexpr("")')
        source = _with_cache_modifier(source)
        values, constraints = dict(AITER), ["SPLIT_K == 1 or SPLIT_K * 128 <= K"]
    else:
        values = {**kernel.declared_values, **_options(of)}
        if "VARIANT" in values:
            values["VARIANT"] = [form for form in values["VARIANT"] if form in ("plain", "persistent")]
        constraints = [*kernel.declared_constraints, *(TUNE_GEMM if product == "gemm" else TUNE_GEMM[:1])]
    if of.name == "gfx950":
        values["KPACK"] = [1]  # where Triton takes no other
    space = "".join(f"    {name!r}: {list(choices)!r},\n" for name, choices in values.items())
    declared = "\n".join(lines) + f"\n\nSEARCH_SPACE = {{\n{space}}}\n"
    source = re.sub(r"^SEARCH_SPACE = \{\n.*?^\}\n", lambda _: declared, source, count=1, flags=re.M | re.S)
    listed = "".join(f"    {text!r},\n" for text in constraints)
    found = re.compile(r"^CONSTRAINTS = \[\n.*?^\]\n", re.M | re.S)
    source = found.sub(lambda _: f"CONSTRAINTS = [\n{listed}]\n", source, count=1)
    return replace(kernel, source=source)


def _options(of: Architecture) -> dict[str, list[Value]]:
    choices: dict[str, list[Value]] = {OPTIONS[name]: list(values) for name, values in kind_of(of.name).options.items()}
    if "wmma" in of.matrix:
        choices[OPTIONS["matrix_instr_nonkdim"]] = [_WMMA]
    return choices


def _launched(sign: str) -> str:
    quote = '"' if sign == ":" else ""
    return " ".join(f"{quote}{name}{quote}{sign}{' ' * (sign == ':')}{constant}," for name, constant in OPTIONS.items())


def _with_cache_modifier(source: str) -> str:
    """Let the loads of B take it, as in aiter's kernel."""
    plain = "EVEN_K: tl.constexpr):\n    return tl.load(ptrs)"
    cached = 'EVEN_K: tl.constexpr, CACHE: tl.constexpr = ""):\n    return tl.load(ptrs, cache_modifier=CACHE)'
    source = source.replace(plain, cached)
    source = source.replace("mask=offs_k < end, other=0.0)", "mask=offs_k < end, other=0.0, cache_modifier=CACHE)")
    of_b = r"(load_operand\((?:left|right)_ptrs, offs_k\[:, None\], end, EVEN_K)\)"
    return re.sub(of_b, rf"\1, {CACHE_MODIFIER})", source)
