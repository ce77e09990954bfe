"""Registers and spills of real machine code, which needs no GPU to be made or read."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kernelwright.evaluators.languages.base import CompiledKernel
from kernelwright.evaluators.languages.cubin import read_binary
from kernelwright.evaluators.languages.tilelang_binaries import kernels_in as tilelang_kernels
from kernelwright.evaluators.languages.triton import SUPPORT
from kernelwright.evaluators.profiling.machine_code.reader import read_code
from kernelwright.evaluators.profiling.torch_profiler import find_kernel

TILELANG = """
import os, sys
from pathlib import Path

os.environ["TILELANG_CACHE_DIR"] = sys.argv[1]
import tilelang
import tilelang.language as T
from kernelwright.evaluators.profiling.torch_profiler import compiled_kernels


@T.prim_func
def staged(A: T.Tensor((1024,), "float32"), B: T.Tensor((1024,), "float32")):
    with T.Kernel(8, threads=128) as block:
        tile = T.alloc_shared((128,), "float32")
        T.copy(A[block * 128], tile)
        for i in T.Parallel(128):
            B[block * 128 + i] = tile[i] + 1.0


tilelang.compile(staged, out_idx=[1], target={"kind": "cuda", "arch": "sm_90a"})
for kernel in compiled_kernels():
    print(kernel.name, kernel.registers, kernel.spills)
"""


@pytest.fixture(scope="module")
def compiled() -> Any:
    """A kernel that needs more registers than it may have: a tile that is alive over a reduction."""
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    @triton.jit
    def centred(x, y, N: tl.constexpr):  # type: ignore[no-untyped-def]
        at = tl.arange(0, N)
        tile = tl.load(x + at)
        tl.store(y + at, tile - tl.sum(tile))

    source = ASTSource(fn=centred, signature={"x": "*fp32", "y": "*fp32", "N": "constexpr"}, constexprs={"N": 8192})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"maxnreg": 32})


def test_what_ptxas_spilled_is_read_from_the_binary(compiled: Any) -> None:
    (found,) = read_binary(compiled.asm["cubin"])
    assert found.name == "centred"
    assert found.registers == 32
    # 64 values per thread are alive, and 32 registers hold at most half of them.
    assert found.spills >= 4 * 32


def test_a_compiled_kernel_is_found_in_the_process(compiled: Any) -> None:
    (found,) = [kernel for kernel in SUPPORT.compiled_kernels() if kernel.name == "centred"]
    assert (found.threads, found.shared_bytes) == (128, compiled.metadata.shared)
    assert found.spills == read_binary(compiled.asm["cubin"])[0].spills


def test_a_loaded_kernel_is_not_read_again(compiled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "n_regs", 40, raising=False)
    monkeypatch.setattr(compiled, "n_spills", 3, raising=False)  # Triton counts words
    (found,) = [kernel for kernel in SUPPORT.compiled_kernels() if kernel.name == "centred"]
    assert (found.registers, found.spills) == (40, 12)


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="TileLang compiles CUDA with nvcc")
def test_tilelangs_binaries_are_found_in_its_cache(tmp_path: Path) -> None:
    script = tmp_path / "compile.py"
    script.write_text(TILELANG)
    done = subprocess.run([sys.executable, script, tmp_path / "cache"], capture_output=True, text=True, timeout=120)
    name, registers, spills = done.stdout.strip().splitlines()[-1].split()
    assert (name, spills) == ("staged_kernel", "0")
    assert 8 <= int(registers) <= 32
    (kernel,) = tilelang_kernels(tmp_path / "cache")
    assert (kernel.name, kernel.tensor_cores) == ("staged_kernel", ())
    assert kernel.binary is not None
    facts = read_code(kernel.binary(), kernel.name)
    assert facts is not None
    # Its lanes load and store consecutive floats, through shared memory.
    moved = {(access.space, access.store): access for access in facts.accesses}
    assert moved["global", False].known and moved["global", True].known and ("shared", True) in moved


def test_what_is_no_binary_has_no_kernels(tmp_path: Path) -> None:
    assert read_binary(b"not an ELF file") == []
    assert tilelang_kernels(tmp_path) == []


def test_kernels_of_one_name_are_distinguished_by_their_registers() -> None:
    lean, fat, worst = (CompiledKernel("main_kernel", *metrics) for metrics in ((32, 0), (64, 8), (64, 16)))
    assert find_kernel([lean, fat, worst], "main_kernel", 32) is lean
    assert find_kernel([lean, fat, worst], "main_kernel", 64) is worst
    assert find_kernel([lean, fat], "other", 32) is None
