"""Resource use of the kernels that this process compiled: registers, spills, shared memory.

Triton's compiled kernels are found among the live objects, TileLang's among the binaries in its cache folder, which
is the worker's own. A binary is read with cuobjdump from Triton's package; no GPU is needed for that.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_USAGE = re.compile(r"Function (\S+):\s*\n\s*REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")
_TIMEOUT_S = 10.0
_BINARIES = ("*.cubin", "*.fatbin")


@dataclass(frozen=True)
class CompiledKernel:
    """One kernel in machine code."""

    name: str
    """Its name on the device and in a profile."""
    registers: int
    """32-bit registers per thread."""
    spills: int
    """Local memory in bytes per thread: spilled registers, and arrays with computed indices."""
    shared_bytes: int | None = None
    """Bytes per block, static and dynamic; None where only the launch determines it."""
    threads: int | None = None
    """Threads per block; None where only the launch determines it."""


def compiled_kernels() -> list[CompiledKernel]:
    """Return all kernels that Triton and TileLang have compiled for this process so far."""
    found = list(triton_kernels())
    folder = os.environ.get("TILELANG_CACHE_DIR")
    if folder and "tilelang" in sys.modules:
        found += tilelang_kernels(Path(folder))
    return found


def triton_kernels() -> Iterator[CompiledKernel]:
    """Yield Triton's kernels for a GPU, loaded or not."""
    module: Any = sys.modules.get("triton.compiler.compiler")
    if module is None:
        return
    for one in gc.get_objects():
        # By type() and not isinstance(): the latter asks lazy modules for their class, which imports them.
        if type(one) is module.CompiledKernel and "cubin" in one.asm:
            yield _triton_kernel(one)


def _triton_kernel(kernel: Any) -> CompiledKernel:
    metadata = kernel.metadata
    registers, words = getattr(kernel, "n_regs", None), getattr(kernel, "n_spills", None)
    if registers is None or words is None:  # compiled but not loaded
        (read,) = read_binary(kernel.asm["cubin"])
        registers, spills = read.registers, read.spills
    else:
        spills = 4 * words  # Triton divides the driver's count of bytes
    threads = metadata.num_warps * metadata.target.warp_size
    return CompiledKernel(metadata.name, registers, spills, metadata.shared, threads)


def tilelang_kernels(folder: Path) -> list[CompiledKernel]:
    """Return the kernels whose binaries are in TileLang's cache folder."""
    return [kernel for form in _BINARIES for path in sorted(folder.rglob(form)) for kernel in read_binary_file(path)]


def read_binary(binary: bytes) -> list[CompiledKernel]:
    """Return the kernels in a cubin."""
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        return read_binary_file(Path(file.name))


def read_binary_file(path: Path) -> list[CompiledKernel]:
    """Return the kernels in a cubin or fatbin; none where cuobjdump is missing or cannot read it."""
    tool = _cuobjdump()
    if tool is None:
        return []
    try:
        done = subprocess.run([tool, "-res-usage", str(path)], capture_output=True, text=True, timeout=_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return []
    # SHARED is ignored: it includes memory that the system reserves, and lacks what the launch requests.
    return [
        CompiledKernel(name, int(registers), int(stack) + int(local))
        for name, registers, stack, _, local in _USAGE.findall(done.stdout)
    ]


def find_kernel(kernels: Iterable[CompiledKernel], name: str, registers: int | None) -> CompiledKernel | None:
    """Return the compiled kernel of a name; of several, as TileLang's 'main_kernel', the one that spills most."""
    same = [one for one in kernels if one.name == name and registers in (None, one.registers)]
    return max(same, key=lambda one: one.spills, default=None)


def _cuobjdump() -> str | None:
    triton = importlib.util.find_spec("triton")
    if triton is not None and triton.origin is not None:
        packaged = Path(triton.origin).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
        if packaged.exists():
            return str(packaged)
    return shutil.which("cuobjdump")
