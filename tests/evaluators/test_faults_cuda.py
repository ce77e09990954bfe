"""Faults on a GPU in between healthy kernels: each has its own status, and the device serves the next one as before."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from kernelwright.core import Config, Evaluation, Problem, PythonKernel, Status
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.settings import AllowTorch, Limits, Sampling, Settings

from ..conftest import Unguarded
from .test_cuda import KERNEL

pytestmark = pytest.mark.gpu

_LOG = logging.getLogger(__name__)
"""Seen with --log-cli-level=INFO: what CUDA says differs between its versions."""

CALL_S = 3
ROOMY = "rows=4096,columns=4096"
SLOWER = 1.25
"""A healthy kernel after a fault takes at most so many times what it took before all of them."""

HELD = "other processes hold"
"""In the message where others have the memory that a kernel lacked."""
OTHERS_S = 60.0
"""Seconds to wait for them."""

STORE = "    tl.store(y + offsets, value, mask)"
FORWARD = "        y = torch.empty_like(x)"
COMPILED_AHEAD = "type(x) is not torch.Tensor"
"""Of the tensors without memory that a kernel is called with before the device is its own: they take no room on it."""
LOOP = "    while tl.load(x) == tl.load(x):\n        tl.atomic_add(y, 0.0)\n"
IS_TIMED = """
import sys


def is_timed():
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "sample" and frame.f_code.co_filename.endswith("clock.py"):
            return True
        frame = frame.f_back
    return False

"""


@dataclass(frozen=True)
class Fault:
    """A change of the healthy kernel, and what it is to come to."""

    name: str
    old: str
    new: str
    status: Status
    says: str
    """In the first line of the message, whatever the case of its letters."""
    takes_all: bool = False
    """Whether it takes all memory of the GPU, which others may hold; more than there is, it cannot have in any case."""

    @property
    def alone(self) -> bool:
        """Whether others on the GPU would lack memory, or the message would be about theirs."""
        return self.says == "out of memory"


FAULTS = [
    Fault(
        "illegal memory access",
        STORE,
        "    tl.store(y + offsets + (1 << 40), value)",
        Status.RUNTIME_ERROR,
        "illegal memory access",
    ),
    Fault(
        "misaligned address",
        STORE,
        "    odd = (y.to(tl.pointer_type(tl.uint8)) + 1 + 4 * offsets).to(tl.pointer_type(tl.float32))\n"
        "    tl.store(odd, value, offsets < size - 1)",
        Status.RUNTIME_ERROR,
        "misaligned address",
    ),
    Fault(
        "device-side assert of Triton",
        f"@triton.jit\n{KERNEL[KERNEL.index('def scale') : KERNEL.index('    offsets =')]}",
        f"@triton.jit(debug=True)\n{KERNEL[KERNEL.index('def scale') : KERNEL.index('    offsets =')]}"
        "    tl.device_assert(tl.program_id(0) < 0, 'no program is this one')\n",
        Status.RUNTIME_ERROR,
        "device-side assert",
    ),
    Fault(
        "device-side assert of torch",
        FORWARD,
        f"{FORWARD}\n        x.reshape(-1)[torch.full((1,), x.numel(), device=x.device)]",
        Status.RUNTIME_ERROR,
        "device-side assert",
    ),
    Fault(
        "more memory than there is",
        FORWARD,
        f"{FORWARD}\n        torch.empty(10 << 40, dtype=torch.uint8, device=x.device)",
        Status.RUNTIME_ERROR,
        "out of memory",
    ),
    Fault(
        "memory bit by bit",
        FORWARD,
        f"{FORWARD}\n        many = 1 if {COMPILED_AHEAD} else 1 << 20"
        "\n        kept = [torch.empty(1 << 30, dtype=torch.uint8, device=x.device) for _ in range(many)]",
        Status.RUNTIME_ERROR,
        "out of memory",
        takes_all=True,
    ),
    Fault("endless", "    value =", f"{LOOP}    value =", Status.TIMEOUT, "did not finish within"),
    Fault(
        "segfault of the host",
        FORWARD,
        f"{FORWARD}\n        import ctypes\n        ctypes.string_at(0)",
        Status.CRASHED,
        "killed by SIGSEGV",
    ),
    Fault(
        "abort of the host with the device at work",
        "        return y",
        "        import os\n        os.abort()",
        Status.CRASHED,
        "killed by SIGABRT",
    ),
]


@pytest.fixture(scope="module")
def cuda(device_memory: Path) -> Iterator[LocalEvaluator]:
    settings = Settings(
        checks=1,
        limits=Limits(compile_s=8, call_s=CALL_S),
        sampling=Sampling(seconds=0.2),
        allow_torch=AllowTorch.ALL,
        second_workload=False,
    )
    with Unguarded("cuda", settings, device_memory) as evaluator:
        yield evaluator


@pytest.fixture(scope="module")
def problem(scale_problem: Problem) -> Problem:
    return scale_problem.at(ROOMY)


@pytest.fixture(scope="module")
def before_ms(cuda: LocalEvaluator, problem: Problem) -> float:
    """What the healthy kernel takes on a device to which nothing has happened."""
    found = evaluate(cuda, problem, KERNEL)
    assert found.latency_ms is not None, found.message
    return found.latency_ms


def evaluate(evaluator: LocalEvaluator, problem: Problem, source: str) -> Evaluation:
    return next(iter(evaluator.evaluate(problem, PythonKernel.parse(source), [Config()])))


def evaluate_with_all_memory(evaluator: LocalEvaluator, problem: Problem, source: str) -> Evaluation:
    """Evaluate a kernel that takes all memory of the GPU, again while other processes hold some of it: then its failure
    is no verdict. Where they keep it, nothing can be said of the kernel."""
    deadline = time.monotonic() + OTHERS_S
    while (found := evaluate(evaluator, problem, source)).status is Status.NOT_MEASURED and HELD in found.message:
        if time.monotonic() > deadline:
            pytest.skip(found.message)
        time.sleep(1.0)
    return found


def require_undisturbed(evaluator: LocalEvaluator, problem: Problem, before_ms: float) -> None:
    after = evaluate(evaluator, problem, KERNEL)
    assert after.status is Status.OK, f"the next kernel is affected: {after.message}"
    assert after.latency_ms is not None and after.latency_ms < SLOWER * before_ms, (after.latency_ms, before_ms)


@pytest.mark.parametrize(
    "fault", [pytest.param(fault, id=fault.name, marks=[pytest.mark.gpu_alone] * fault.alone) for fault in FAULTS]
)
def test_a_fault_ends_with_its_kernel(cuda: LocalEvaluator, problem: Problem, before_ms: float, fault: Fault) -> None:
    assert fault.old in KERNEL
    start = time.monotonic()
    way = evaluate_with_all_memory if fault.takes_all else evaluate
    found = way(cuda, problem, KERNEL.replace(fault.old, fault.new))
    seconds = time.monotonic() - start
    _LOG.info("%s: %s in %.1f s: %r; log: %r", fault.name, found.status, seconds, found.message, found.log[-200:])
    assert found.status is fault.status, found.message
    assert found.speedup is None
    first, *rest = found.message.splitlines()
    assert fault.says in first.lower() or fault.says in first, found.message
    assert all(line.startswith("line ") for line in rest), f"advice that fits nothing here: {rest}"
    require_undisturbed(cuda, problem, before_ms)


def test_a_hang_that_waits_for_the_clock(cuda: LocalEvaluator, problem: Problem, before_ms: float) -> None:
    endless = KERNEL[KERNEL.index("@triton.jit") : KERNEL.index("class ModelNew")]
    endless = endless.replace("def scale(", "def endless(").replace("    value =", f"{LOOP}    value =")
    launch = "        scale[(triton.cdiv"
    source = KERNEL.replace("class ModelNew", f"{IS_TIMED}\n{endless}class ModelNew")
    source = source.replace(launch, "        (endless if is_timed() else scale)[(triton.cdiv")
    found = evaluate(cuda, problem, source)
    _LOG.info("%s: %r", found.status, found.message)
    # Its launches alone are timed, in a process that has no Python of it to look at a clock.
    assert found.status is Status.OK and found.replay is not None and found.replay.replayed
    require_undisturbed(cuda, problem, before_ms)


@pytest.mark.gpu_alone
def test_memory_that_the_reference_needs(cuda: LocalEvaluator, problem: Problem, before_ms: float) -> None:
    """All of the device is taken and kept, and the result is right: it is the reference that then fails."""
    hoard = f"""{FORWARD}
        if not ({COMPILED_AHEAD} or hasattr(self, "kept")):
            self.kept = []
            for bits in (30, 24, 21):
                try:
                    while True:
                        self.kept.append(torch.empty(1 << bits, dtype=torch.uint8, device=x.device))
                except torch.cuda.OutOfMemoryError:
                    pass"""
    found = evaluate_with_all_memory(cuda, problem, KERNEL.replace(FORWARD, hoard))
    _LOG.info("%s: %r", found.status, found.message)
    assert found.status is Status.RUNTIME_ERROR, found.message
    assert "out of memory" in found.message
    require_undisturbed(cuda, problem, before_ms)


def test_a_worker_that_is_killed_with_the_device_at_work(
    cuda: LocalEvaluator, problem: Problem, before_ms: float
) -> None:
    endless = KERNEL.replace("    value =", f"{LOOP}    value =")
    killed: list[int] = []

    def kill() -> None:
        deadline = time.monotonic() + 30
        while cuda._runner.client is None or cuda._runner.client._worker is None or not cuda._runner.client.alive:
            if time.monotonic() > deadline:
                return
            time.sleep(0.02)
        time.sleep(3.0)  # the kernel is compiled, and runs
        killed.append(cuda._runner.client.worker.pid)
        os.kill(killed[0], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    found = evaluate(cuda, problem, endless)
    thread.join()
    _LOG.info("%s: %r", found.status, found.message)
    assert killed
    assert found.status is Status.CRASHED, found.message
    assert found.message == "the process killed by SIGKILL (compiling or running)"
    require_undisturbed(cuda, problem, before_ms)
