"""Compiling ahead: its results, its cache, and the failures that it survives."""

from __future__ import annotations

import os
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import Problem, PythonKernel
from kernelwright.evaluators.compilation.pool import ENOUGH, LEAST_S, TIMES, CompilePool, CompileResult, CompileStatus
from kernelwright.evaluators.workers.client import Worker, WorkerTimeoutError
from kernelwright.evaluators.workers.server_client import ForkServer

from ...conftest import SCALE_KERNEL, TORCH_KERNEL
from ..conftest import NewWorker


@pytest.fixture
def pool(new_worker: NewWorker, scale_problem: Problem) -> Iterator[CompilePool]:
    """Two workers for the scale problem on the CPU."""
    with CompilePool(lambda: new_worker(scale_problem), count=2, seconds=60) as pool:
        yield pool


def torch_text(body: str, top: str = "") -> str:
    return TORCH_KERNEL.format(body=body, top=top)


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def result(pool: CompilePool, source: str) -> CompileResult:
    return pool.submit(source).result(timeout=200)


def test_the_measuring_worker_finds_what_was_compiled(
    pool: CompilePool, new_worker: NewWorker, scale_problem: Problem, cache: Path, tmp_path: Path
) -> None:
    compiled = result(pool, SCALE_KERNEL)
    assert compiled.ok, compiled.message
    before = files_in(cache)
    assert any(name.endswith("kernel_lib.so") for name in before)

    path = tmp_path / "elsewhere.py"
    path.write_text(SCALE_KERNEL)
    worker = new_worker(scale_problem, role="candidate.worker")
    assert worker.call(60, op="load", source=str(path), serial=7, keep=False)["ok"]
    ran = worker.call(60, op="run", serial=7, seed=1, outputs=str(tmp_path / "outputs"), share=False, written=[])
    worker.end()
    assert ran["ok"], ran
    assert files_in(cache) == before
    assert not files_in(worker.folder / "cache")


def test_the_digest_identifies_work_not_text(pool: CompilePool) -> None:
    texts = [SCALE_KERNEL, "UNUSED = 1\n" + SCALE_KERNEL, PythonKernel.parse(SCALE_KERNEL).bind({"BLOCK": 16}).source]
    # The second is compiled by the other worker or found in the cache: neither may change the digest.
    compiled, same, other = [future.result(timeout=200) for future in [pool.submit(text) for text in texts]]
    assert compiled.digest == same.digest
    assert compiled.digest != other.digest
    flags = result(pool, SCALE_KERNEL.replace('["-O3"]', '["-O2"]'))
    assert flags.ok
    assert flags.digest != compiled.digest


def test_the_digest_covers_what_torch_does(pool: CompilePool) -> None:
    bodies = ["return x * self.weight", "return  x * self.weight", "return x * 1.5", "return x * 2.5", "return x + x"]
    digests = [result(pool, torch_text(body)).digest for body in bodies]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 4


@pytest.mark.parametrize(
    ("body", "top"),
    [
        ("return x * self.weight * torch.tensor([FACTOR])", "FACTOR = {}"),
        ("return x * self.weight * TABLE", "TABLE = torch.tensor([{}])"),
        ("import numpy; return x * torch.from_numpy(numpy.full((1,), FACTOR, 'float32'))", "FACTOR = {}"),
        ("torch.set_num_threads(int(FACTOR)); return x * self.weight", "FACTOR = {}"),
    ],
    ids=["tensor", "table", "numpy", "threads"],
)
def test_the_digest_covers_what_the_source_holds(pool: CompilePool, body: str, top: str) -> None:
    compiled, same, other = (result(pool, torch_text(body, top.format(value))) for value in ("1.0", "1.00", "2.0"))
    assert compiled.ok and compiled.digest == same.digest != other.digest


def test_settings_of_torch_end_with_the_source_that_made_them(new_worker: NewWorker, scale_problem: Problem) -> None:
    settings = 'torch.set_num_threads(3); torch.set_float32_matmul_precision("medium"); return x'
    texts = [torch_text("return x * self.weight"), torch_text(settings), torch_text("return  x * self.weight")]
    with CompilePool(lambda: new_worker(scale_problem), count=1, seconds=60) as pool:
        before, _, after = (result(pool, text).digest for text in texts)
    assert before == after


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
    with CompilePool(lambda: new_worker(scale_problem), count=1, seconds=3) as pool:
        late = result(pool, textwrap.dedent(hanging))
        assert late.status is CompileStatus.TIMEOUT
        assert "3 s" in late.message
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


class Compiling:
    """A worker whose kernels say how long they take."""

    alive, log = True, ""

    def __init__(self, folder: Path) -> None:
        self.inbox = folder
        self.limits: list[float] = []

    def call(self, seconds: float, source: str, **_: object) -> dict[str, object]:
        self.limits.append(seconds)
        if "slow" in Path(source).read_text():
            raise WorkerTimeoutError
        return {"ok": True, "digest": "0" * 64, "seconds": 0.1}

    def discard(self) -> None: ...

    def end(self) -> None: ...

    def kill(self) -> None: ...


def test_what_takes_far_longer_than_the_others_is_given_up_sooner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker: Any = Compiling(tmp_path)
    with CompilePool(lambda: worker, count=1, seconds=120) as pool:
        for number in range(ENOUGH):
            assert result(pool, f"K = {number}").ok
        slow = result(pool, "slow = 1")
        monkeypatch.setattr(pool, "_took", [2.0] * ENOUGH)
        assert result(pool, "K = -1").ok
        monkeypatch.setattr(pool, "_took", [30.0] * ENOUGH)
        slower = result(pool, "slow = 2")
    assert worker.limits == [120.0] * ENOUGH + [LEAST_S, 2.0 * TIMES, 120.0]
    assert slow.message == "did not finish within 30 s (compiling); half of the others took 0.0 s"
    assert slower.message == "did not finish within 120 s (compiling)"


def test_where_most_take_long_the_limit_grows(tmp_path: Path) -> None:
    worker: Any = Compiling(tmp_path)
    with CompilePool(lambda: worker, count=1, seconds=120) as pool:
        for number in range(ENOUGH):
            assert result(pool, f"K = {number}").ok
        for number in range(ENOUGH + 1):
            assert result(pool, f"slow = {number}").status is CompileStatus.TIMEOUT
        assert not result(pool, "slow = -1").message.endswith("took 0.0 s")
    assert worker.limits[ENOUGH] == LEAST_S and worker.limits[-1] == 120.0


def test_a_worker_that_cannot_be_started_is_reported() -> None:
    def fail() -> Worker:
        raise OSError(24, "Too many open files")

    with CompilePool(fail, 2, 5.0) as broken, pytest.raises(OSError, match="Too many open files"):
        broken.submit("x").result(timeout=10)
