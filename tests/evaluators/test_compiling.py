"""Compiling ahead: what it tells, what it leaves in the cache, and what it survives."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import Kernel, Problem
from kernelwright.corpus import find_problem, list_kernels
from kernelwright.evaluators.compiling import Compiled, CompilePool, CompileStatus
from kernelwright.evaluators.judging import problem_options
from kernelwright.evaluators.launches import ptx_code
from kernelwright.evaluators.processes import ENVIRONMENT
from kernelwright.evaluators.trace import Trace
from kernelwright.evaluators.worker import ForkServer, Worker

from ..conftest import SCALE_KERNEL, TORCH_KERNEL

H200 = {"name": "NVIDIA H200", "major": 9, "minor": 0, "shared_memory_per_block_optin": 232448}
NewWorker = Callable[..., Worker]


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    server = ForkServer(["torch", "triton", "tilelang"], ENVIRONMENT)
    yield server
    server.close()


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "shared-cache"


@pytest.fixture
def new_worker(server: ForkServer, tmp_path: Path, cache: Path) -> NewWorker:
    serial = itertools.count()

    def start(problem: Problem, role: str = "compiler", device: str = "cpu", **options: Any) -> Worker:
        folder = tmp_path / f"{role}-{next(serial)}"
        folder.mkdir()
        return server.fork(
            role, folder, device=device, cache=str(cache), **problem_options(problem, tmp_path), **options
        )

    return start


@pytest.fixture
def pool(new_worker: NewWorker, scale_problem: Problem) -> Iterator[CompilePool]:
    """Two workers for the scale problem on the CPU."""
    with CompilePool(lambda: new_worker(scale_problem), count=2, seconds=60) as pool:
        yield pool


def on_h200(new_worker: NewWorker, problem: Problem, properties: dict[str, Any] = H200) -> CompilePool:
    return CompilePool(lambda: new_worker(problem, device="cuda", properties=properties), count=1, seconds=120)


def torch_text(body: str, top: str = "") -> str:
    return TORCH_KERNEL.format(body=body, top=top)


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def result(pool: CompilePool, source: str) -> Compiled:
    return pool.submit(source).result(timeout=200)


def test_the_measuring_worker_finds_what_was_compiled(
    pool: CompilePool, new_worker: NewWorker, scale_problem: Problem, cache: Path, tmp_path: Path
) -> None:
    compiled = result(pool, SCALE_KERNEL)
    assert compiled.ok, compiled.message
    assert compiled.launches == 1
    before = files_in(cache)
    assert any(name.endswith("kernel_lib.so") for name in before)

    path = tmp_path / "elsewhere.py"
    path.write_text(SCALE_KERNEL)
    worker = new_worker(scale_problem, role="candidate")
    assert worker.call(60, op="load", source=str(path), serial=7, keep=False) == {"ok": True}
    ran = worker.call(60, op="run", serial=7, seed=1, state="none", outputs=str(tmp_path / "outputs"), share=False)
    worker.end()
    assert ran["ok"], ran
    assert files_in(cache) == before
    assert not files_in(worker.folder / "cache")


def test_the_digest_tells_work_not_text(pool: CompilePool) -> None:
    texts = [SCALE_KERNEL, "UNUSED = 1\n" + SCALE_KERNEL, Kernel.parse(SCALE_KERNEL).bind({"BLOCK": 16}).source]
    # The second is compiled by the other worker or found in the cache: neither may change the digest.
    one, same, other = [future.result(timeout=200) for future in [pool.submit(text) for text in texts]]
    assert one.digest == same.digest
    assert one.digest != other.digest
    flags = result(pool, SCALE_KERNEL.replace('["-O3"]', '["-O2"]'))
    assert flags.ok
    assert flags.digest != one.digest


def test_the_digest_covers_what_torch_does(pool: CompilePool) -> None:
    bodies = ["return x * self.weight", "return  x * self.weight", "return x * 1.5", "return x * 2.5", "return x + x"]
    digests = [result(pool, torch_text(body)).digest for body in bodies]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 4


def test_the_same_text_is_compiled_once(pool: CompilePool) -> None:
    assert pool.submit(SCALE_KERNEL) is pool.submit(SCALE_KERNEL)


@pytest.mark.parametrize(
    ("source", "quoted"),
    [
        ("def broken(:\n", "SyntaxError"),
        (SCALE_KERNEL.replace("X[b * BLOCK + i, j] * W[j]", "T.nothing_of_the_sort(X)"), "nothing_of_the_sort"),
        (SCALE_KERNEL.replace('["-O3"]', '["-fno-such-flag"]'), "Compilation Failed"),
    ],
    ids=["python", "tilelang", "g++"],
)
def test_a_compiler_that_refuses_is_a_verdict(pool: CompilePool, source: str, quoted: str) -> None:
    failed = result(pool, source)
    assert failed.status is CompileStatus.FAILED
    assert failed.is_verdict
    assert quoted in failed.message


@pytest.mark.parametrize(
    "body",
    [
        "return x * self.weight.sum().item()",
        "return x[x > 0]",
        "return x * x.numpy()",
        "return x.data_ptr()",
        "return torch.compile(lambda y: y + 1)(x)",
    ],
)
def test_what_needs_real_data_is_left_to_the_measuring_worker(pool: CompilePool, body: str) -> None:
    unknown = result(pool, torch_text(body))
    assert unknown.status is CompileStatus.UNKNOWN
    assert not unknown.is_verdict
    assert unknown.message


def test_a_problem_that_needs_real_data_says_nothing_about_kernels(
    new_worker: NewWorker, scale_problem: Problem
) -> None:
    source = scale_problem.source.replace("torch.randn(rows, columns)", "torch.randn(int(torch.rand(1)), columns)")
    problem = replace(scale_problem, source=source)
    with CompilePool(lambda: new_worker(problem), count=1, seconds=60) as pool:
        assert result(pool, SCALE_KERNEL).status is CompileStatus.UNKNOWN


def test_a_timeout_leaves_no_process_behind(
    server: ForkServer, new_worker: NewWorker, scale_problem: Problem, tmp_path: Path
) -> None:
    # As compilers run: below the worker, in its group and in one of their own.
    hanging = f"""
    import subprocess
    subprocess.Popen(["sleep", "1{os.getpid()}"])
    subprocess.Popen(["sh", "-c", "sleep 2{os.getpid()}; true"], start_new_session=True)
    while True:
        pass
    """
    with CompilePool(lambda: new_worker(scale_problem), count=1, seconds=5) as pool:
        late = result(pool, textwrap.dedent(hanging))
        assert late.status is CompileStatus.TIMEOUT
        assert "5 s" in late.message
        assert children(server.pid) == []
        assert running(f"1{os.getpid()}") == running(f"2{os.getpid()}") == []
    assert children(server.pid) == []
    assert not list(tmp_path.glob("compiler-*"))


@pytest.mark.parametrize(
    ("death", "told"), [("os._exit(3)", "exited with code 3"), ("os.kill(os.getpid(), 11)", "killed by SIGSEGV")]
)
def test_a_crash_costs_one_worker(pool: CompilePool, death: str, told: str) -> None:
    crashed = result(pool, torch_text("return x", top=f"import os; {death}"))
    assert crashed.status is CompileStatus.CRASHED
    assert told in crashed.message
    assert result(pool, torch_text("return x * self.weight")).ok
    assert result(pool, torch_text("return x + self.weight")).ok


def test_closing_ends_what_runs_and_cancels_what_waits(new_worker: NewWorker, scale_problem: Problem) -> None:
    pool = CompilePool(lambda: new_worker(scale_problem), count=1, seconds=60)
    running_now = pool.submit("while True: pass")
    while not running_now.running():
        time.sleep(0.01)
    waiting = pool.submit(SCALE_KERNEL)
    start = time.monotonic()
    pool.close()
    assert time.monotonic() - start < 20
    assert waiting.cancelled()
    with pytest.raises(CancelledError):
        running_now.result()
    with pytest.raises(RuntimeError):
        pool.submit("")


def test_compiling_gives_way(new_worker: NewWorker, scale_problem: Problem) -> None:
    worker = new_worker(scale_problem, nice=5)
    assert worker.call(60, op="compile", source="none.py", serial=1)["stage"] == "ahead"
    assert os.getpriority(os.PRIO_PROCESS, worker.pid) == os.getpriority(os.PRIO_PROCESS, 0) + 5
    worker.end()


def children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def running(argument: str) -> list[str]:
    """The processes that have this among their arguments, ended ones left out."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if argument.encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            continue
    return found


# What follows compiles for a GPU and needs none.

TRITON_MATMUL = next(file.path for file in list_kernels("triton") if file.problem == "level1/1_1").read_text()
SMALL = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16, "NUM_WARPS": 4, "NUM_STAGES": 2}

# The launch of a measuring worker, with real tensors; only the memory is not a GPU's.
REAL_LAUNCH = """
import sys, torch
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction
from kernelwright.core import Problem
from kernelwright.evaluators.modules import ProblemModule, load
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
load("another_name", Path(sys.argv[2])).ModelNew()(*problem.inputs(3))
"""


def matmul_problem() -> Problem:
    return find_problem("level1/1_1").read().at("tiny")


def test_triton_compiles_for_a_gpu_that_is_not_there(new_worker: NewWorker, cache: Path, tmp_path: Path) -> None:
    kernel = Kernel.parse(TRITON_MATMUL)
    small = kernel.bind(SMALL).source
    with_constant = small.replace("BLOCK_K: tl.constexpr,\n", "BLOCK_K: tl.constexpr,\n    UNUSED: tl.constexpr,\n")
    with_constant = with_constant.replace("BLOCK_K=BLOCK_K,", "BLOCK_K=BLOCK_K, UNUSED=7,")
    problem = matmul_problem()
    with on_h200(new_worker, problem) as pool:
        one, other, same = (
            result(pool, text) for text in (small, kernel.bind({**SMALL, "BLOCK_M": 64}).source, with_constant)
        )
    assert one.ok and other.ok and same.ok, (one, other, same)
    assert one.digest != other.digest
    assert one.digest == same.digest
    assert one.registers is not None and 16 <= one.registers <= 255
    assert one.shared_bytes is not None and 0 < one.shared_bytes < (other.shared_bytes or 0)
    files = files_in(cache)
    assert sum(name.endswith("matmul_kernel.ptx") for name in files) == 3
    assert sum(name.endswith("matmul_kernel.cubin") for name in files) == 3

    script, path = tmp_path / "launch.py", tmp_path / "bound.py"
    script.write_text(REAL_LAUNCH)
    path.write_text(small)
    environment = {**os.environ, **ENVIRONMENT, "TRITON_CACHE_DIR": str(cache / "triton")}
    environment.pop("TRITON_INTERPRET", None)
    arguments = [problem_options(problem, tmp_path)["problem"], path, problem.sizes["N"]]
    subprocess.run([sys.executable, script, *map(str, arguments)], env=environment, check=True)
    assert files_in(cache) == files


def test_triton_kernels_that_cannot_run_are_refused(new_worker: NewWorker) -> None:
    small = Kernel.parse(TRITON_MATMUL).bind(SMALL).source
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
    assert compiled.launches == 1
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
        trace = Trace()
        for operation in operations:
            trace.add(*operation)
        return trace.digest

    a, b = torch.zeros(4, 4), torch.zeros(4, 4)
    assert digest(("f", a, a)) == digest(("f", b, b)) != digest(("f", a, b))
    assert digest(("f", a[0])) != digest(("f", a[1]))
    assert digest(("f", a)) != digest(("f", a.t()))
    assert len({digest(("f", value)) for value in (1, 1.0, True, "1", None, [1], torch.float32)}) == 7


def test_a_worker_that_cannot_be_started_is_told() -> None:
    def fail() -> Worker:
        raise OSError(24, "Too many open files")

    with CompilePool(fail, 2, 5.0) as broken, pytest.raises(OSError, match="Too many open files"):
        broken.submit("x").result(timeout=10)
