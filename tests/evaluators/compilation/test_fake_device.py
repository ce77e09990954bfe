"""Compiling for a GPU that is not there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import Problem, PythonKernel
from kernelwright.corpus import find_problem, list_kernels
from kernelwright.evaluators.compilation.pool import CompilePool, CompileResult, CompileStatus
from kernelwright.evaluators.compilation.trace import OperatorTrace
from kernelwright.evaluators.correctness.distributions import OTHER_STRIDES
from kernelwright.evaluators.languages.ptx import ptx_code
from kernelwright.evaluators.pipeline.servers import ENVIRONMENT
from kernelwright.evaluators.workers.client import Worker
from kernelwright.evaluators.workers.problem_file import problem_options

from ..conftest import NewWorker

H200 = {"name": "NVIDIA H200", "major": 9, "minor": 0, "shared_memory_per_block_optin": 232448}


def on_h200(
    new_worker: NewWorker, problem: Problem, properties: dict[str, Any] = H200, strides: bool = False
) -> CompilePool:
    def start() -> Worker:
        return new_worker(problem, device="cuda", properties=properties, strides=strides)

    return CompilePool(start, count=1, seconds=120)


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def result(pool: CompilePool, source: str) -> CompileResult:
    return pool.submit(source).result(timeout=200)


TRITON_MATMUL = next(file.path for file in list_kernels("triton") if file.problem == "level1/1_1").read_text()
SMALL = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16, "NUM_WARPS": 4, "NUM_STAGES": 2}

# The launch of a measuring worker, with real tensors; only the memory is not a GPU's.
REAL_LAUNCH = """
import sys, torch
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction
from kernelwright.core import Problem
from kernelwright.evaluators.correctness.distributions import draw
from kernelwright.evaluators.workers.modules import ProblemModule, load
from pathlib import Path

class Driver:
    get_current_target = staticmethod(lambda: GPUTarget("cuda", 90, 32))
    get_current_device = staticmethod(lambda: 0)
    get_current_stream = staticmethod(lambda device: 0)

driver.set_active(Driver())
run = JITFunction.run
JITFunction.run = lambda self, *args, grid, warmup, **options: run(self, *args, grid=grid, warmup=True, **options)
size = int(sys.argv[3])
problem = ProblemModule(Path(sys.argv[1]), {"N": size}, "cpu")
load("another_name", Path(sys.argv[2])).ModelNew()(*draw(problem, 3, *sys.argv[4:]))
"""


def matmul_problem() -> Problem:
    return find_problem("level1/1_1").read().at("tiny")


def test_triton_compiles_for_a_gpu_that_is_not_there(new_worker: NewWorker, cache: Path, tmp_path: Path) -> None:
    kernel = PythonKernel.parse(TRITON_MATMUL)
    small = kernel.bind(SMALL).source
    with_constant = small.replace("BLOCK_K: tl.constexpr,\n", "BLOCK_K: tl.constexpr,\n    UNUSED: tl.constexpr,\n")
    with_constant = with_constant.replace("BLOCK_K=BLOCK_K,", "BLOCK_K=BLOCK_K, UNUSED=7,")
    problem = matmul_problem()
    with on_h200(new_worker, problem) as pool:
        first, second, same = (
            result(pool, text) for text in (small, kernel.bind({**SMALL, "BLOCK_M": 64}).source, with_constant)
        )
    assert first.ok and second.ok and same.ok, (first, second, same)
    assert first.digest != second.digest
    assert first.digest == same.digest
    (types,), (more,) = first.signatures, same.signatures
    assert types[:3] == ("*fp32",) * 3 and {*types[3:]} == {"i32", "constexpr"}, "strides of 1 are constants, too"
    assert sorted(more) == sorted((*types, "constexpr")), "what launches a kernel depends on constants that it lacks"
    files = files_in(cache)
    assert sum(name.endswith("matmul_kernel.ptx") for name in files) == 3
    assert sum(name.endswith("matmul_kernel.cubin") for name in files) == 3

    launch(problem, small, tmp_path, cache)
    assert files_in(cache) == files


def launch(problem: Problem, source: str, folder: Path, cache: Path, *distribution: str) -> None:
    """Do what a measuring worker does with its cache."""
    script, path = folder / "launch.py", folder / "bound.py"
    script.write_text(REAL_LAUNCH)
    path.write_text(source)
    environment = {**os.environ, **ENVIRONMENT, "TRITON_CACHE_DIR": str(cache / "triton")}
    environment.pop("TRITON_INTERPRET", None)
    arguments = [problem_options(problem, folder)["problem"], path, problem.sizes["N"], *distribution]
    subprocess.run([sys.executable, script, *map(str, arguments)], env=environment, check=True)


def test_what_inputs_with_other_strides_need_is_compiled_ahead_too(
    new_worker: NewWorker, cache: Path, tmp_path: Path
) -> None:
    kernel, problem = PythonKernel.parse(TRITON_MATMUL).bind(SMALL).source, matmul_problem()
    with on_h200(new_worker, problem) as pool:
        plain = result(pool, kernel)
    compiled = files_in(cache)
    launch(problem, kernel, tmp_path, cache, OTHER_STRIDES)
    needed = files_in(cache) - compiled
    assert any(name.endswith(".cubin") for name in needed), "strides of 1 are constants of the code"
    shutil.rmtree(cache)
    with on_h200(new_worker, problem, strides=True) as pool:
        assert result(pool, kernel).digest == plain.digest, "equal code is known by the problem's own inputs"
    files = files_in(cache)
    launch(problem, kernel, tmp_path, cache, OTHER_STRIDES)
    assert files_in(cache) == files


def test_triton_kernels_that_cannot_run_are_refused(new_worker: NewWorker) -> None:
    small = PythonKernel.parse(TRITON_MATMUL).bind(SMALL).source
    with on_h200(new_worker, matmul_problem(), {**H200, "shared_memory_per_block_optin": 1024}) as pool:
        greedy = result(pool, small)
        broken = result(pool, small.replace("tl.zeros((BLOCK_M, BLOCK_N)", "tl.zeros((BLOCK_M, 3)"))
    assert greedy.status is CompileStatus.FAILED
    assert "shared memory" in greedy.message
    assert broken.status is CompileStatus.FAILED


def test_tilelang_compiles_for_a_gpu_that_is_not_there(new_worker: NewWorker, cache: Path) -> None:
    path = next(file.path for file in list_kernels("tilelang") if file.problem == "level1/1_19")
    with on_h200(new_worker, find_problem("level1/1_19").read().at("tiny")) as pool:
        compiled = result(pool, path.read_text())
    assert compiled.ok, compiled.message
    sources = [path.read_text() for path in cache.rglob("device_kernel.cu")]
    assert len(sources) == 1
    assert "__global__" in sources[0]


def test_ptx_is_compared_without_its_debug_data() -> None:
    ptx = """
    // Generated by LLVM
    .visible .entry add_kernel(
        .param .u64 add_kernel_param_0 // here
    )
    {
        .loc 1 12 3 // kernel.py:12:3
    $L__tmp0:
        ld.param.b64 %rd1, [add_kernel_param_0];
        ret;
    $L__func_end0:
    }
        .file 1 "/somewhere" "kernel.py"
        .section .debug_abbrev
        {
    .b8 1
        }
    """
    code = ptx_code(ptx, "add_kernel")
    expected = ".visible .entry kernel( .param .u64 kernel_param_0 ) { ld.param.b64 %rd1, [kernel_param_0]; ret; }"
    assert " ".join(code.split()) == expected


def test_a_trace_numbers_storages_and_keeps_types_apart() -> None:
    torch = pytest.importorskip("torch")

    def digest(*operations: tuple[Any, ...]) -> str:
        trace = OperatorTrace()
        for operation in operations:
            trace.add(*operation)
        return trace.digest

    a, b = torch.zeros(4, 4), torch.zeros(4, 4)
    assert digest(("f", a, a)) == digest(("f", b, b)) != digest(("f", a, b))
    assert digest(("f", a[0])) != digest(("f", a[1]))
    assert digest(("f", a)) != digest(("f", a.t()))
    assert len({digest(("f", value)) for value in (1, 1.0, True, "1", None, [1], torch.float32)}) == 7
