"""What the machine prevents is not a verdict: it is retried, told with its cause, and measured by a resumed search."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kernelwright.core import (
    Config,
    DeviceError,
    Evaluation,
    Journal,
    Kernel,
    Problem,
    Status,
    TorchProblem,
    Trial,
    read_journal,
)
from kernelwright.core.journal import of
from kernelwright.evaluators.compilation.pool import CompilePool, CompileStatus
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.pipeline.candidate_runner import CandidateRunner
from kernelwright.evaluators.workers.client import Worker

from ..conftest import FAST, SCALE_KERNEL, Unguarded, torch_kernel
from . import test_faults
from .conftest import NewWorker
from .test_faults import SHORT, search

WRITES = torch_kernel(
    "result = x * self.weight; Path('scratch').write_bytes(bytes(1 << 20)); return result", "from pathlib import Path"
)
"""It needs a little room on the disk, for itself and for its results."""


@contextlib.contextmanager
def killing(pids: Callable[[], list[int]], times: int) -> Iterator[list[int]]:
    """Kill, from outside, the processes that `pids` finds, each once and `times` in all; give those that were."""
    killed: list[int] = []
    over = threading.Event()

    def run() -> None:
        while len(killed) < times and not over.wait(0.005):
            with contextlib.suppress(OSError):  # what ends meanwhile removes its folders
                for pid in set(pids()) - set(killed):
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def replays(evaluator: LocalEvaluator) -> list[int]:
    """The processes that replay launches: each has its own working folder."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (place / "cwd").readlink().match(f"{evaluator.processes.folder}/work/replay-*"):
                found.append(int(place.name))
    return found


def test_a_full_disk_is_no_verdict_and_a_resumed_search_measures(
    scale_problem: Problem, tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(small_disk))
    others = small_disk / "others"
    with Unguarded(settings=SHORT) as crowded:
        (first,) = crowded.evaluate(scale_problem, WRITES, [{}])
        assert first.status is Status.OK, first.message
        fill(others, crowded)
        (full,) = crowded.evaluate(scale_problem, WRITES, [{}])
        assert full.status is Status.NOT_MEASURED, full.message
        assert "No space left on device; make room on that disk" in full.message
        assert full.message.endswith("tried 3 times; `resume` measures it")
        others.unlink()
        (again,) = crowded.evaluate(scale_problem, WRITES, [{}])
    assert again.status is Status.OK, again.message


def test_a_search_ends_where_nothing_can_be_measured_and_goes_on_later(
    scale_problem: Problem, tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(small_disk))
    monkeypatch.setattr(test_faults, "KERNEL", named(WRITES))
    path, others, names = tmp_path / "journal.jsonl", small_disk / "others", [f"fine {number}" for number in range(5)]
    with Unguarded(settings=SHORT) as crowded:
        crowded.prepare(scale_problem, WRITES)
        fill(others, crowded)
        with pytest.raises(DeviceError, match=r"3 configs in a row could not be measured: .*make room"):
            search(crowded, scale_problem, path, names)
        lost = [trial.evaluation.status for trial in of(read_journal(path), Trial)]
        assert lost == [Status.NOT_MEASURED] * 3
        others.unlink()
        found = search(crowded, scale_problem, path, names)
    assert found.progress.recalled == 0
    with Journal(path) as journal:
        counts = [trial for trial in journal.of(Trial) if trial.evaluation.measured and trial.origin == "search"]
    assert sorted(str(trial.evaluation.config["FAULT"]) for trial in counts) == names


def fill(path: Path, evaluator: LocalEvaluator) -> None:
    """Take what is left of a disk but for half a megabyte, as another program would."""
    evaluator.forget_candidate()
    evaluator.processes.tidy()
    left = os.statvfs(path.parent)
    path.write_bytes(bytes(left.f_bavail * left.f_frsize - (1 << 19)))


def named(kernel: Kernel) -> Kernel:
    return type(kernel).parse(f'{kernel.source}\nFAULT = "fine"\n')


def test_a_process_that_replays_is_killed_from_outside_and_another_one_measures(
    proving: LocalEvaluator, scale_problem: Problem, scale_kernel: Kernel
) -> None:
    with killing(lambda: replays(proving), times=1) as killed:
        (found,) = proving.evaluate(scale_problem, scale_kernel, [{}])
    assert len(killed) == 1
    assert found.status is Status.OK, found.message


def test_processes_that_are_killed_again_and_again_are_no_verdict(
    proving: LocalEvaluator, scale_problem: Problem, scale_kernel: Kernel
) -> None:
    with killing(lambda: replays(proving), times=1000) as killed:
        (found,) = proving.evaluate(scale_problem, scale_kernel, [{}])
    assert len(killed) >= 3
    assert found.status is Status.NOT_MEASURED, found.message
    assert "killed by SIGKILL, from outside; tried 3 times" in found.message


def test_servers_that_are_killed_again_and_again_are_no_verdict(
    scale_problem: Problem, scale_kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One kernel at which they end three times costs only itself."""
    evaluated, called = CandidateRunner.evaluate_in_full, list[Config]()

    def evaluate(runner: CandidateRunner, problem: TorchProblem, kernel: Kernel, config: Config) -> Evaluation:
        called.append(config)
        if config:
            for pid in runner.processes.server_pids:
                os.kill(pid, signal.SIGKILL)
        return evaluated(runner, problem, kernel, config)

    monkeypatch.setattr(CandidateRunner, "evaluate_in_full", evaluate)
    with LocalEvaluator(settings=FAST) as killed:
        lost, fine = killed.evaluate(scale_problem, scale_kernel, [Config({"BLOCK": 4}), Config()])
    assert lost.status is Status.NOT_MEASURED
    assert lost.message == "the evaluation server ended (out of memory?); tried 3 times; `resume` measures it"
    assert fine.status is Status.OK, fine.message
    assert called == [lost.config] * 3 + [Config()]


@pytest.mark.parametrize("times", [1, 1000])
def test_a_compiler_that_is_killed_from_outside_is_replaced(
    new_worker: NewWorker, scale_problem: Problem, times: int
) -> None:
    started: list[Worker] = []

    def start() -> Worker:
        started.append(new_worker(scale_problem))
        return started[-1]

    with (
        killing(lambda: [worker.pid for worker in started if list(worker.inbox.glob("*/kernel_*"))], times),
        CompilePool(start, 1, 60) as pool,
    ):
        result = pool.submit(SCALE_KERNEL).result(timeout=100)
    assert len(started) == min(times + 1, 3)
    # Where none of them lasted, the kernel's own worker shows whether it compiles.
    assert result.status is (CompileStatus.COMPILED if times == 1 else CompileStatus.UNKNOWN), result.message
