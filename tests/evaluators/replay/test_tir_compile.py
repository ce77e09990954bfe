"""CUDA of TileLang's kernels becomes a binary through PTX that is checked, by nvcc for sm_90a."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from typing import Any

import pytest
from kernelwright.evaluators.replay.tir.checked_ptx import through_checked_ptx
from kernelwright.evaluators.replay.values import UnplannableCallError

TARGET = {"kind": "cuda", "arch": "sm_90a"}
pytestmark = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")


@pytest.fixture(scope="module")
def device() -> Any:
    """The IR of a kernel that adds one."""
    import tilelang.language as T  # noqa: N812
    from tilelang import tvm
    from tilelang.backend.module import create_backend_context
    from tilelang.engine.lower import lower_to_host_device_ir

    @T.prim_func
    def added(A: T.Tensor((128,), "float32"), B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(128):
                B[i] = A[i] + 1.0

    with tvm.transform.PassContext(opt_level=3), tvm.target.Target(TARGET):
        _, lowered, *_ = lower_to_host_device_ir(added, create_backend_context(TARGET, None, "auto"))
    return lowered


@pytest.fixture
def compiled(device: Any) -> Callable[[Callable[[str], str]], tuple[bytes, bytes]]:
    """Compiles the kernel after a change of its CUDA: through PTX, and as nvcc does at once."""
    from tilelang import tvm
    from tilelang.backend.module import create_backend_context
    from tilelang.contrib import nvcc
    from tilelang.engine.lower import device_codegen

    original = nvcc.compile_cuda

    def run(change: Callable[[str], str]) -> tuple[bytes, bytes]:
        made: list[tuple[bytes, bytes]] = []
        with tvm.transform.PassContext(opt_level=3), tvm.target.Target(TARGET), through_checked_ptx("added"):
            checked = nvcc.compile_cuda
            assert checked is not original

            def both(source: str, *given: Any, **named: Any) -> Any:
                binary = checked(change(source), *given, **named)
                made.append((bytes(binary), bytes(original(change(source), *given, **named))))
                return binary

            nvcc.compile_cuda = both
            device_codegen(device, create_backend_context(TARGET, None, "auto"))
        assert nvcc.compile_cuda is original
        return made[-1]

    return run


def code_of(binary: bytes) -> bytes:
    """The machine code of the kernel in an ELF file."""
    start, size = struct.unpack_from("<Q", binary, 0x28)[0], struct.unpack_from("<H", binary, 0x3A)[0]
    count, names = struct.unpack_from("<HH", binary, 0x3C)
    sections = [struct.unpack_from("<IIQQQQ", binary, start + number * size) for number in range(count)]
    for name, _, _, _, place, length in sections:
        if binary[sections[names][4] + name :].startswith(b".text.added_kernel\0"):
            return binary[place : place + length]
    raise AssertionError("no code")


def test_the_binary_has_the_code_that_nvcc_makes_of_the_source(compiled: Any) -> None:
    through_ptx, at_once = compiled(lambda source: source)
    assert code_of(through_ptx) == code_of(at_once)
    assert len(code_of(at_once)) > 128


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("B[0] = (float)clock64();", "%clock64"),
        ("B[0] = (float)__CONCAT(clo, ck)();", "%clock"),
        ('long long now; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); B[0] = (float)now;', "%globaltimer"),
        ("__CONCAT(as, m)(__STRING(brkpt;)); static __device__ int calls; B[0] = (float)calls++;", "outlives a launch"),
    ],
)
def test_clocks_and_state_are_seen_after_macros(compiled: Any, statement: str, says: str) -> None:
    def change(source: str) -> str:
        assert source.count("{\n") == 1
        return source.replace("{\n", "{\n" + statement + "\n")

    with pytest.raises(UnplannableCallError, match=says):
        compiled(change)
