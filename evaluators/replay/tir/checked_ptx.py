"""TileLang's CUDA becomes a binary through PTX, which is checked: in PTX all names and macros are put together."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..ptx import require_only_computes
from ..values import UnplannableCallError

_COMPILE_S = 600
"""Seconds that the assembler may take."""
_OF_CUDA = ("-I", "-std=", "--expt-", "-w")
"""Options that say how CUDA is read."""


@contextlib.contextmanager
def through_checked_ptx(name: str) -> Iterator[None]:
    """While it is active, TileLang compiles CUDA to PTX, and to a binary only what that may contain.

    The binaries of earlier compilations are not used. Raises `UnplannableCallError` for PTX that is not allowed.
    """
    import tilelang
    from tilelang.contrib import nvcc
    from tilelang.env import env

    cached, compile_cuda = env.is_cache_enabled(), nvcc.compile_cuda
    refused: list[UnplannableCallError] = []

    def compiled(
        source: str, target_format: str, arch: Sequence[str], options: Sequence[str] = (), **settings: Any
    ) -> bytearray:
        ptx = bytes(compile_cuda(source, "ptx", arch, options=options, **settings)).decode()
        try:
            require_only_computes(name, ptx)
        except UnplannableCallError as reason:
            refused.append(reason)
            raise
        return _assembled(nvcc.get_nvcc_compiler(), ptx, target_format, [*arch, *options])

    tilelang.disable_cache()
    nvcc.compile_cuda = compiled
    try:
        yield
    except Exception:
        if refused:  # TVM hands on the text of an exception alone
            raise refused[0] from None
        raise
    finally:
        nvcc.compile_cuda = compile_cuda
        if cached:
            tilelang.enable_cache()


def _assembled(nvcc: str, ptx: str, target_format: str, options: Sequence[str]) -> bytearray:
    """Return the binary that nvcc would have made of the source."""
    kept = [option for option in options if not option.startswith(_OF_CUDA)]
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder, "kernels.ptx"), Path(folder, "kernels.bin")
        source.write_text(ptx)
        command = [nvcc, f"--{target_format}", "-O3", "-lineinfo", *kept, str(source), "-o", str(binary)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_S, check=False)
        if run.returncode:
            raise RuntimeError(f"ptxas: {run.stderr.strip()[-400:]}")
        return bytearray(binary.read_bytes())
