"""What the kernels that this process compiled take of a multiprocessor: registers, spills, shared memory."""

from __future__ import annotations

from collections.abc import Iterable

from ..languages.base import CompiledKernel, supports


def compiled_kernels() -> list[CompiledKernel]:
    """All kernels that this process compiled for a GPU so far, in any language."""
    return [kernel for support in supports() for kernel in support.compiled_kernels()]


def find_kernel(kernels: Iterable[CompiledKernel], name: str, registers: int | None) -> CompiledKernel | None:
    """The compiled kernel of a name; of several, as TileLang's 'main_kernel', the one that spills most."""
    same = [one for one in kernels if one.name == name and registers in (None, one.registers)]
    return max(same, key=lambda one: one.spills, default=None)
