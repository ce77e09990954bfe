"""A GPU that was lost for a while: a command is killed while it holds it, or another process takes its memory."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kernelwright.core import Problem, ProblemError, Status
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.timing.telemetry import memory_of
from kernelwright.evaluators.workers.device_lock import DeviceLock

from ..cli.tuning import workplace
from ..surroundings import KERNELWRIGHT, WARM_SERVER
from .test_cuda import KERNEL
from .test_faults_cuda import FORWARD, LOOP, evaluate, require_undisturbed
from .test_faults_cuda import before_ms as before_ms
from .test_faults_cuda import cuda as cuda
from .test_faults_cuda import problem as problem

pytestmark = [pytest.mark.gpu, pytest.mark.gpu_alone]

ENDLESS = KERNEL.replace("    value =", f"{LOOP}    value =")
HUNGRY = KERNEL.replace(FORWARD, f"{FORWARD}\n        torch.empty(12 << 30, dtype=torch.uint8, device=x.device)")
LEFT_GIB = 8
"""Enough for our processes, and too little for the hungry kernel."""
OTHER = """
import sys, torch
free, total = torch.cuda.mem_get_info()
kept = torch.empty(free - int(float(sys.argv[1]) * 2**30), dtype=torch.uint8, device="cuda")
print("held", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def taken_but(left_gib: float) -> Iterator[None]:
    """Another process has all of the GPU's free memory but this."""
    command = [sys.executable, "-c", OTHER, str(left_gib)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        yield
        other.communicate("")


def within(seconds: float, true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:
        time.sleep(0.05)
    return true()


@pytest.fixture(scope="module")
def gpu(cuda: LocalEvaluator, problem: Problem) -> str:
    return evaluate(cuda, problem, KERNEL).environment["uuid"]


def test_a_command_that_is_killed_while_it_holds_the_gpu(
    cuda: LocalEvaluator, problem: Problem, before_ms: float, gpu: str, tmp_path: Path
) -> None:
    before = memory_of(gpu)
    assert before is not None
    place = workplace(tmp_path)
    (place / "endless.py").write_text(ENDLESS)
    where = ("--problem", "level1/999_Scale.py", "--workload", "rows=4096,columns=4096", "--device", "cuda")
    known = {name: value for name, value in os.environ.items() if name != WARM_SERVER}
    command = [*KERNELWRIGHT, "evaluate", "--kernel", "endless.py", *where]
    with subprocess.Popen(command, cwd=place, env=known, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        assert within(120, lambda: not DeviceLock(gpu).is_free), "it never had the GPU"
        time.sleep(1.0)  # its kernel runs, and would for ever
        assert run.poll() is None
        run.kill()
    assert within(10, lambda: DeviceLock(gpu).is_free), "its lock is left"
    # Of one GiB the driver and the evaluator's own processes, which come and go, may have more or less.
    assert within(20, lambda: (memory := memory_of(gpu)) is not None and memory.used_gib < before.used_gib + 1)
    require_undisturbed(cuda, problem, before_ms)


def test_memory_that_another_process_holds_is_no_verdict(
    cuda: LocalEvaluator, problem: Problem, before_ms: float
) -> None:
    with taken_but(LEFT_GIB):
        found = evaluate(cuda, problem, HUNGRY)
    assert found.status is Status.NOT_MEASURED, found.message
    assert "GiB of the GPU's memory; end them, or choose another GPU; tried 3 times" in found.message
    again = evaluate(cuda, problem, HUNGRY)
    assert again.measured and "out of memory" not in again.message, again.message
    require_undisturbed(cuda, problem, before_ms)


def test_a_reference_without_room_is_one_line(cuda: LocalEvaluator, problem: Problem, before_ms: float) -> None:
    cuda.processes.forget_reference()
    cuda.forget_candidate()
    with taken_but(0.1), pytest.raises(ProblemError, match="memory") as caught:
        evaluate(cuda, problem, KERNEL)
    assert "\n" not in str(caught.value)
    require_undisturbed(cuda, problem, before_ms)
