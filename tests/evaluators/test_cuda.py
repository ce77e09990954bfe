"""The evaluator on a CUDA device."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernelwright.core import Config, Evaluation, Problem, PythonKernel, Status
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.settings import Limits, Sampling, Settings
from kernelwright.evaluators.workers.device_lock import DeviceLock

from ..triton_scale import TRITON_KERNEL

pytestmark = pytest.mark.gpu

KERNEL = TRITON_KERNEL.replace("BLOCK = 64", "BLOCK = 256")


@pytest.fixture(scope="module")
def cuda(device_memory: Path) -> Iterator[LocalEvaluator]:
    settings = Settings(checks=2, limits=Limits(compile_s=20, call_s=10), sampling=Sampling(seconds=0.3))
    with LocalEvaluator("cuda", settings, device_memory) as evaluator:
        yield evaluator


def evaluate(evaluator: LocalEvaluator, problem: Problem, source: str) -> Evaluation:
    return next(iter(evaluator.evaluate(problem, PythonKernel.parse(source), [Config()])))


def test_a_correct_kernel_is_timed_with_events(cuda: LocalEvaluator, scale_problem: Problem) -> None:
    evaluation = evaluate(cuda, scale_problem.at("rows=4096,columns=4096"), KERNEL)
    assert evaluation.status is Status.OK, evaluation.message
    assert evaluation.measurement is not None
    assert "CUDA events" in evaluation.measurement.method
    assert evaluation.speedup is not None
    # TF32 changes nothing in a product of elements, so PyTorch's defaults are not timed beside the reference.
    assert evaluation.speedup_default == evaluation.speedup and "default" not in evaluation.baselines
    # 128 MiB read and written take at least 20 us on any GPU there is.
    assert evaluation.measurement.median_ms > 0.02


BROKEN = [
    ("wrong values", ("* tl.load(w", "+ tl.load(w"), Status.WRONG_VALUE),
    (
        "illegal access",
        ("tl.store(y + offsets, value, mask)", "tl.store(y + offsets + 2**40, value)"),
        Status.RUNTIME_ERROR,
    ),
    ("does not compile", ("tl.program_id(0)", "tl.no_such_thing(0)"), Status.COMPILE_ERROR),
    (
        "endless",
        ("    value =", "    while tl.load(x) == tl.load(x):\n        tl.atomic_add(y, 0.0)\n    value ="),
        Status.TIMEOUT,
    ),
]


@pytest.mark.parametrize(("change", "status"), [b[1:] for b in BROKEN], ids=[b[0] for b in BROKEN])
def test_failures_do_not_reach_the_next_kernel(
    cuda: LocalEvaluator, scale_problem: Problem, change: tuple[str, str], status: Status
) -> None:
    assert change[0] in KERNEL
    assert evaluate(cuda, scale_problem, KERNEL.replace(*change)).status is status
    assert evaluate(cuda, scale_problem, KERNEL).status is Status.OK


def test_profile_of_the_device(cuda: LocalEvaluator, scale_problem: Problem) -> None:
    profile = cuda.profile(scale_problem)
    assert profile.ceilings.copy_gb_s > 100
    assert profile.ceilings.cores > 10


def test_a_kernel_is_compiled_before_the_device_is_locked(cuda: LocalEvaluator, scale_problem: Problem) -> None:
    kernel = KERNEL.replace("BLOCK = 256", "BLOCK = 512")
    uuid = cuda.environment(scale_problem)["uuid"]
    before, found = compiled(cuda), list[Evaluation]()
    measuring = threading.Thread(target=lambda: found.append(evaluate(cuda, scale_problem, kernel)))
    with DeviceLock(uuid).held():
        measuring.start()
        deadline = time.monotonic() + 60
        while compiled(cuda) == before and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not found
        assert len(compiled(cuda) - before) == 1
    measuring.join(240)  # others may have the device first
    (evaluation,) = found
    assert evaluation.status is Status.OK, evaluation.message
    assert evaluation.compile_s is not None
    assert evaluation.compile_s > 0.05, "what compiling took is counted, though the call found it compiled"


def compiled(cuda: LocalEvaluator) -> set[Path]:
    return set(cuda.processes.folder.glob("work/ahead-*/**/*.cubin"))
