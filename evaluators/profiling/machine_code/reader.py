"""Disassembles a binary of NVIDIA's with nvdisasm, which Triton's package carries, and reads a kernel's facts."""

from __future__ import annotations

import contextlib
import functools
import subprocess
import tempfile
from pathlib import Path

from ....core.compiled_code import CompiledCode
from ...languages.cubin import nvidia_tool
from .facts import facts_of
from .listing import read_listing

_TIMEOUT_S = 20.0
_KEPT = 32
"""Kernels whose facts are kept in this process."""
_ELF = b"\x7fELF"


def read_code(binary: bytes, name: str) -> CompiledCode | None:
    """Return the facts of one kernel in a cubin or fatbin; None where it cannot be disassembled, or is too long.

    A kernel is not judged by this, so what cannot be read, in whatever way, is left out.
    """
    with contextlib.suppress(Exception):
        return _facts(binary, name)
    return None


@functools.lru_cache(maxsize=_KEPT)
def _facts(binary: bytes, name: str) -> CompiledCode | None:
    listing = next((item for item in read_listing(disassemble(binary)) if item.name == name), None)
    return None if listing is None else facts_of(listing)


def disassemble(binary: bytes) -> str:
    """Return the assembly of a cubin, or of those in a fatbin, with its lines; '' where no tool reads it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = folder / "kernel.bin"
        whole.write_bytes(binary)
        if binary.startswith(_ELF):
            return _run("nvdisasm", ["-c", "-gi", str(whole)], folder)
        _run("cuobjdump", ["-xelf", "all", str(whole)], folder)
        parts = sorted(folder.glob("*.cubin"))[:1]  # of several architectures
        return "".join(_run("nvdisasm", ["-c", "-gi", str(part)], folder) for part in parts)


def _run(tool: str, options: list[str], folder: Path) -> str:
    path = nvidia_tool(tool)
    if path is None:
        return ""
    try:
        done = subprocess.run(
            [path, *options], capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, cwd=folder
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
