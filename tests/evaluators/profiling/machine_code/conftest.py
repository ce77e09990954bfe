"""Planted kernels compiled for sm_90 without a device, and the profile of a call that would launch one."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import Ceilings, DeviceLimits, KernelProfile, MatrixProduct, Profile
from kernelwright.evaluators.languages.base import CompiledKernel
from kernelwright.evaluators.languages.cubin import read_binary
from kernelwright.evaluators.languages.ptx import matrix_instructions
from kernelwright.evaluators.profiling.torch_profiler import read_trace

SOURCE = Path(__file__).with_name("planted.cu")
LIMITS = DeviceLimits(architecture="sm_90", multiprocessors=132, shared_bytes=232_448, registers=65_536, threads=2048)
STREAM = Profile(
    flops=1e8,
    matrix_flops=0,
    min_bytes=4e8,
    eager_bytes=4e8,
    ceilings=Ceilings(
        copy_gb_s=4000, matrix_gflop_s=50_000, vector_gflop_s=50_000, half_gflop_s=700_000, latency_ns=600, cores=132
    ),
    limits=LIMITS,
    device="a GPU",
)
"""Its floor is a tenth of a millisecond, for memory."""
PRODUCT = STREAM.model_copy(
    update={
        "min_bytes": 4e7, "eager_bytes": 4e7, "flops": 7e10, "matrix_flops": 7e10,
        "product": MatrixProduct(m=4096, n=4096, k=2048, element_bytes=2, dtype="float16"),
    }
)  # fmt: skip
"""Its floor is a tenth of a millisecond, for products of fp16."""
Launched = Callable[..., KernelProfile]


@pytest.fixture(scope="session")
def cuda_kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CompiledKernel]:
    """The kernels of planted.cu by name."""
    if shutil.which("nvcc") is None:
        pytest.skip("planted.cu is compiled with nvcc")
    binary = tmp_path_factory.mktemp("planted") / "planted.cubin"
    command = ["nvcc", "-arch=sm_90a", "-cubin", "-lineinfo", "-o", str(binary), str(SOURCE)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return {kernel.name: kernel for kernel in read_binary(binary.read_bytes())}


def of_triton(kernel: Any) -> CompiledKernel:
    """Return a kernel that Triton compiled and did not load."""
    (read,) = read_binary(kernel.asm["cubin"])
    used = matrix_instructions(kernel.asm["ptx"])
    threads = 32 * kernel.metadata.num_warps
    return CompiledKernel(read.name, read.registers, read.spills, kernel.metadata.shared, threads, used, read.binary)


def launched(
    kernel: CompiledKernel, blocks: int, threads: int | None = None, shared: int | None = None, time_ms: float = 0.5,
    launches: int = 1,
) -> KernelProfile:  # fmt: skip
    """Return the profile of a call that launches a kernel, as torch's profiler would record it."""
    args = {
        "registers per thread": kernel.registers,
        "shared memory": shared if shared is not None else kernel.shared_bytes or 0,
        "block": [threads or kernel.threads or 256, 1, 1],
        "grid": [blocks, 1, 1],
    }
    event = {"cat": "kernel", "name": kernel.name, "dur": time_ms * 1000 / launches, "args": args}
    return KernelProfile(**read_trace({"traceEvents": [event] * launches}, [kernel], lambda _: True, "sm_90"))


def line_of(text: str, source: Path = SOURCE) -> int:
    """Return the number of the line that has a text."""
    return next(number for number, line in enumerate(source.read_text().splitlines(), 1) if text in line)
