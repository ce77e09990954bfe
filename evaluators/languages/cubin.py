"""Machine code of NVIDIA GPUs, read with cuobjdump, which Triton's package carries; no GPU is needed for that."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

from .base import CompiledKernel

_USAGE = re.compile(r"Function (\S+):\s*\n\s*REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")
_TIMEOUT_S = 10.0


def read_binary(binary: bytes) -> list[CompiledKernel]:
    """The kernels in a cubin."""
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        found = read_binary_file(Path(file.name))
    return [replace(kernel, binary=lambda: binary) for kernel in found]


def read_binary_file(path: Path) -> list[CompiledKernel]:
    """The kernels in a cubin or fatbin; none where cuobjdump is missing or cannot read it."""
    tool = nvidia_tool("cuobjdump")
    if tool is None:
        return []
    try:
        done = subprocess.run([tool, "-res-usage", str(path)], capture_output=True, text=True, timeout=_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return []
    # SHARED is left out: what is asked for at the launch is not in the binary, what the system reserves is.
    return [
        CompiledKernel(name, int(registers), int(stack) + int(local), binary=path.read_bytes)
        for name, registers, stack, _, local in _USAGE.findall(done.stdout)
    ]


def nvidia_tool(name: str) -> str | None:
    """Return the path of 'cuobjdump' or 'nvdisasm': Triton's, or the one on the PATH; None where there is none."""
    triton = importlib.util.find_spec("triton")
    if triton is not None and triton.origin is not None:
        packaged = Path(triton.origin).parent / "backends" / "nvidia" / "bin" / name
        if packaged.exists():
            return str(packaged)
    return shutil.which(name)
