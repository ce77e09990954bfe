"""What runs in one call: torch's profiler on the CPU for real, a trace of a GPU as kineto writes it, a GPU for real."""

from __future__ import annotations

import ctypes
import time
from typing import Any

import pytest
from kernelwright.core import KernelProfile
from kernelwright.evaluators.languages.base import CompiledKernel
from kernelwright.evaluators.profiling.torch_profiler import OWN_CODE, profile_call, read_trace


def event(name: str, dur: float, cat: str = "kernel", **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": 7, "ts": 1.0, "dur": dur, "args": args}


def launch(name: str, dur: float, grid: list[int], block: list[int], registers: int, shared: int) -> dict[str, Any]:
    given = {"registers per thread": registers, "shared memory": shared, "grid": grid, "block": block}
    return event(name, dur, device=0, context=1, stream=7, correlation=12, **given)


TRACE = {
    "schemaVersion": 1,
    "traceEvents": [
        {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}},
        event("cudaLaunchKernel", 9.0, cat="cuda_runtime", cbid=211),
        launch("scale", 10.0, [64, 2, 1], [128, 1, 1], 40, 4096),
        launch("scale", 12.0, [64, 2, 1], [128, 1, 1], 40, 4096),
        launch("scale", 1.0, [1, 1, 1], [128, 1, 1], 40, 4096),
        launch("void cublas<float>", 30.0, [32, 1, 1], [256, 1, 1], 255, 0),
        event("Memset (Device)", 2.0, cat="gpu_memset", bytes=4096),
    ],
}


def test_a_trace_of_a_gpu_becomes_a_table() -> None:
    compiled = [CompiledKernel("scale", 40, 16, 4096, 128), CompiledKernel("scale", 32, 0, 4096, 128)]
    found = KernelProfile(**read_trace(TRACE, compiled, lambda name: name == "scale", "sm_90"))
    assert [kernel.name for kernel in found.kernels] == ["void cublas<float>", "scale", "Memset (Device)", "scale"]
    library, ours, memset, tail = found.kernels
    assert (ours.launches, ours.blocks, ours.threads, ours.registers) == (2, 128, 128, 40)
    assert ours.time_ms == pytest.approx(0.022)
    assert (ours.spills, ours.shared_bytes, ours.own) == (16, 4096, True)
    assert (ours.occupancy, ours.limited_by, ours.resident_blocks) == (0.75, "registers", 12)
    assert ours.waves(132) == pytest.approx(128 / (12 * 132))
    assert (library.own, library.spills, library.limited_by) == (False, None, "registers")
    assert (memset.blocks, memset.occupancy, memset.waves(132)) == (None, None, None)
    assert (tail.launches, tail.blocks) == (1, 1)
    assert found.time_ms == pytest.approx(0.055)
    assert found.own_share == pytest.approx(23 / 55)


def test_of_a_gpu_that_is_not_known_no_occupancy_is_reported() -> None:
    found = KernelProfile(**read_trace(TRACE, [], lambda name: True, "sm_70"))
    assert {kernel.occupancy for kernel in found.kernels} == {None}


def test_an_empty_trace_shows_that_nothing_ran() -> None:
    found = KernelProfile(**read_trace({"traceEvents": []}, [], lambda name: True, "sm_90"))
    assert (found.kernels, found.time_ms, found.own_share) == ((), 0, None)


def test_on_a_cpu_operators_are_distinguished_from_own_code() -> None:
    import torch

    matrix = torch.randn(300, 300)
    calls: list[str] = []

    def call() -> None:
        calls.append("call")
        torch.relu(matrix @ matrix)
        time.sleep(0.05)  # as long as calls are repeated

    start = time.perf_counter()
    found = KernelProfile(**profile_call(call, "cpu", before=lambda: calls.append("before")))
    took_ms = (time.perf_counter() - start) * 1000
    assert calls == ["before", "call"]
    by_name = {kernel.name: kernel for kernel in found.kernels}
    assert by_name["aten::mm"].launches == 1 and not by_name["aten::mm"].own
    assert by_name["aten::mm"].time_ms > by_name["aten::matmul"].time_ms  # time inside itself alone
    ours = by_name[OWN_CODE]
    assert ours.own and [kernel.name for kernel in found.kernels if kernel.own] == [OWN_CODE]
    assert 50 <= ours.time_ms <= found.time_ms <= took_ms
    times = [kernel.time_ms for kernel in found.kernels]
    assert times == sorted(times, reverse=True)


def test_on_a_cpu_the_fastest_of_some_calls_is_told() -> None:
    """The first one starts the profiler."""
    sleeps = iter([0.02, 0.004, 0.006, 0.004, 0.004])
    found = KernelProfile(**profile_call(lambda: time.sleep(next(sleeps)), "cpu"))
    assert next(sleeps, None) is None, "five calls"
    assert 4 <= found.time_ms < 15


@pytest.mark.gpu
def test_on_a_gpu_own_kernels_are_distinguished_from_torchs() -> None:
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def doubled(x, y, N, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, tl.load(x + at, mask=at < N) * 2, mask=at < N)

    x = torch.randn(1 << 24, device="cuda")
    y = torch.empty_like(x)

    def call() -> None:
        doubled[(x.numel() // 1024,)](x, y, x.numel(), BLOCK=1024)
        torch.relu(y)

    call()
    found = KernelProfile(**profile_call(call, "cuda"))
    ours, library = (next(k for k in found.kernels if k.own is own) for own in (True, False))
    assert (ours.name, ours.launches, ours.blocks, ours.threads) == ("doubled", 1, 1 << 14, 128)
    assert ours.registers and ours.spills == 0
    assert ours.code is not None and library.code is None
    load = next(access for access in ours.code.accesses if not access.store)
    assert (load.width, load.requests) == (16, load.needed)
    assert load.line is not None and load.line > 100
    assert (library.launches, len(found.kernels)) == (1, 2)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    call()
    end.record()
    end.synchronize()
    assert 0 < found.time_ms < start.elapsed_time(end)
    assert ours.resident_blocks == _by_the_driver(ours.name, ours.threads or 0)


def _by_the_driver(name: str, threads: int) -> int:
    """Blocks per multiprocessor as CUDA's driver computes them."""
    import gc

    from triton.compiler.compiler import CompiledKernel

    (kernel,) = [
        get_object for get_object in gc.get_objects() if type(get_object) is CompiledKernel and get_object.name == name
    ]
    blocks = ctypes.c_int()
    occupancy = ctypes.CDLL("libcuda.so.1").cuOccupancyMaxActiveBlocksPerMultiprocessor
    shared = ctypes.c_size_t(kernel.metadata.shared)
    assert occupancy(ctypes.byref(blocks), ctypes.c_void_p(kernel.function), threads, shared) == 0
    return blocks.value


def test_machine_code_is_read_only_where_it_is_asked_for() -> None:
    read: list[str] = []

    def binary() -> bytes:
        read.append("once")
        return b""

    compiled = [CompiledKernel("scale", 40, 0, 4096, 128, binary=binary)]
    for code in (False, True):
        read_trace(TRACE, compiled, lambda name: name == "scale", "sm_90", code)
        assert bool(read) is code
