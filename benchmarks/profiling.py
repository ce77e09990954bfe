"""Measures the cost of profiling one call on a GPU, its effect on later calls, and its agreement with the driver.

    python benchmarks/profiling.py [--ncu]

It prints as it goes and ends with a JSON object.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

KERNEL = '''"""Doubles a row, by Triton."""
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def doubled(x, y, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < N) * 2, mask=at < N)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        doubled[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y
'''
GEMM = """
import tilelang
import tilelang.language as T


def build(n, target="auto"):
    @T.prim_func
    def gemm(A: T.Tensor((n, n), "float16"), B: T.Tensor((n, n), "float16"), C: T.Tensor((n, n), "float16")):
        with T.Kernel(n // 128, n // 128, threads=256) as (bx, by):
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 128), "float16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for k in T.Pipelined(n // 64, num_stages=3):
                T.copy(A[by * 128, k * 64], a)
                T.copy(B[k * 64, bx * 128], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 128, bx * 128])

    return tilelang.compile(gemm, out_idx=[2], target=target)
"""
PROBLEM = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x * 2


def get_inputs():
    return [torch.randn(1 << 24)]


def get_init_inputs():
    return []
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ncu", action="store_true", help="count with Nsight Compute too, and keep its CSV")
    counted = parser.parse_args().ncu
    folder = Path(tempfile.mkdtemp(prefix="kernelwright-profiling-"))
    os.environ["TILELANG_CACHE_DIR"] = str(folder / "tilelang")
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    record: dict[str, Any] = {}

    def report(name: str, value: Any) -> None:
        record[name] = value
        print(f"{name:>36}: {value}", flush=True)

    import torch
    from kernelwright.core import KernelProfile
    from kernelwright.evaluators.profiling.torch_profiler import profile_call
    from kernelwright.evaluators.workers.modules import load

    (folder / "kernel.py").write_text(KERNEL)
    model = load("doubling", folder / "kernel.py").ModelNew()
    small, large = torch.randn(1 << 12, device="cuda"), torch.randn(1 << 26, device="cuda")

    def both() -> None:
        model(large)
        torch.relu(large)

    both()
    model(small)
    report("small_call_before", calls_us(lambda: model(small)))
    report("large_call_before", calls_us(lambda: model(large)))
    report("opening_s", seconds(lambda: profile_call(lambda: None, "cuda")))
    report("small_call_when_open", calls_us(lambda: model(small)))
    report("profile_s", [seconds(lambda: profile_call(both, "cuda")) for _ in range(3)])
    report("small_call_after", calls_us(lambda: model(small)))
    report("large_call_after", calls_us(lambda: model(large)))
    found = KernelProfile(**profile_call(both, "cuda"))
    for kernel in found.kernels:
        print(f"    {kernel!r}")
    report("kernels_ms_against_events", [found.time_ms, calls_us(both)["median"] / 1000])
    ours = next(kernel for kernel in found.kernels if kernel.own)
    report("blocks_ours_and_the_drivers", [ours.resident_blocks, blocks_by_the_driver(ours.name, ours.threads or 0)])
    tilelang_gemm(report, folder)
    if counted:
        count_with_ncu(report)
    print(json.dumps(record))


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return round(time.perf_counter() - start, 4)


def calls_us(call: Callable[[], object], samples: int = 200) -> dict[str, float]:
    """Return the median of the device's and of the host's time of a call, in microseconds."""
    import torch

    device, host = [], []
    for _ in range(samples):
        torch.cuda.synchronize()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        began = time.perf_counter()
        start.record()
        call()
        end.record()
        end.synchronize()
        host.append((time.perf_counter() - began) * 1e6)
        device.append(start.elapsed_time(end) * 1e3)
    return {"median": round(statistics.median(device), 2), "host": round(statistics.median(host), 2)}


def blocks_by_the_driver(name: str, threads: int) -> int:
    """Return the blocks per multiprocessor that CUDA's driver computes for a Triton kernel."""
    from triton.compiler.compiler import CompiledKernel

    kernel = next(one for one in gc.get_objects() if type(one) is CompiledKernel and one.name == name)
    blocks = ctypes.c_int()
    function, shared = ctypes.c_void_p(kernel.function), ctypes.c_size_t(kernel.metadata.shared)
    driver = ctypes.CDLL("libcuda.so.1")
    status = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(ctypes.byref(blocks), function, threads, shared)
    return blocks.value if status == 0 else -status


def tilelang_gemm(report: Callable[[str, Any], None], folder: Path) -> None:
    """Check that registers, shared memory and spills of a TileLang product with much shared memory are found."""
    import torch
    from kernelwright.evaluators.languages.tilelang_binaries import kernels_in
    from kernelwright.evaluators.profiling.torch_profiler import profile_call
    from kernelwright.evaluators.workers.modules import load

    (folder / "gemm.py").write_text(GEMM)
    kernel = load("gemm", folder / "gemm.py").build(4096)
    left, right = (torch.randn(4096, 4096, device="cuda", dtype=torch.float16) for _ in range(2))
    kernel(left, right)
    report("tilelang_profile", profile_call(lambda: kernel(left, right), "cuda")["kernels"])
    report("tilelang_binaries", [vars(one) for one in kernels_in(Path(os.environ["TILELANG_CACHE_DIR"]))])


def count_with_ncu(report: Callable[[str, Any], None]) -> None:
    from kernelwright.core import PythonKernel, TorchProblem
    from kernelwright.evaluators.profiling.ncu import count

    problem = TorchProblem("level1/1_998", "998_Double", PROBLEM)
    start = time.perf_counter()
    found = count(problem, PythonKernel.parse(KERNEL), "cuda", {"doubled"})
    report("ncu_s", round(time.perf_counter() - start, 1))
    report("ncu", found.counters or found.remark)


if __name__ == "__main__":
    sys.exit(main())
