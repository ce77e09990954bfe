"""The binaries of TileLang's kernels, and the matrix instructions of their generated CUDA."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from .base import CompiledKernel
from .cubin import read_binary_file

_BINARIES = ("*.cubin", "*.fatbin")
_SOURCE = "device_kernel.cu"
_KERNEL = re.compile(r"__global__ void(?:\s+__launch_bounds__\([^)]*\))?\s+(\w+)\(")
_MATRIX = re.compile(r"\btl::(wgmma|mma|tcgen05mma)_\w+<tl::DataType::k(\w+)")
_OPERANDS = {"Float16": "f16", "BFloat16": "bf16", "TensorFloat32": "tf32"}
"""PTX's names of TileLang's types; others are named as TileLang does."""


def kernels_in(folder: Path) -> list[CompiledKernel]:
    """Return the kernels with binaries in a cache folder, and the matrix instructions of their generated CUDA."""
    found = [kernel for form in _BINARIES for path in sorted(folder.rglob(form)) for kernel in read_binary_file(path)]
    used: dict[str, tuple[str, ...]] = {}
    for path in sorted(folder.rglob(_SOURCE)):
        used |= matrix_instructions(path.read_text(errors="replace"))
    return [replace(kernel, tensor_cores=used.get(kernel.name)) for kernel in found]


def matrix_instructions(source: str) -> dict[str, tuple[str, ...]]:
    """Return the matrix instructions of each kernel of a CUDA source, as `CompiledKernel.tensor_cores` has them."""
    found: dict[str, set[str]] = {}
    _, *parts = _KERNEL.split(source)
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        known = found.setdefault(name, set())
        known |= {f"{kind} {_OPERANDS.get(operand, operand.lower())}" for kind, operand in _MATRIX.findall(text)}
    return {name: tuple(sorted(used)) for name, used in found.items()}
