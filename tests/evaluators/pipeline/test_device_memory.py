"""A kernel that lacked a GPU's memory because others held it is not measured: on a CPU, with made-up figures."""

from __future__ import annotations

import pytest
from kernelwright.core import Problem, Status
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.pipeline import device_memory
from kernelwright.evaluators.pipeline.device_memory import held_by_others, may_be_short
from kernelwright.evaluators.reference.client import ReferenceClient
from kernelwright.evaluators.timing.telemetry import MemoryInUse

from ...conftest import FAST, torch_kernel

LACKED = "CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 79.19 GiB"
HUNGRY = torch_kernel(f"raise RuntimeError('{LACKED}')")


class Gpu:
    """Tells what it is told to, one figure after the other and then the last one for ever."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *used: float) -> None:
        self.used = list(used)
        monkeypatch.setattr(device_memory, "memory_of", self.memory)
        monkeypatch.setattr(device_memory, "FREED_S", 0.3)

    def memory(self, gpu: str) -> MemoryInUse | None:
        assert gpu == "abc"
        return MemoryInUse(self.used.pop(0) if len(self.used) > 1 else self.used[0], 80.0)


def test_what_is_still_held_when_our_processes_have_ended_is_held_by_others(monkeypatch: pytest.MonkeyPatch) -> None:
    Gpu(monkeypatch, 79, 70.25)
    assert held_by_others("abc", LACKED) == (
        "other processes hold 70.2 of 80.0 GiB of the GPU's memory; end them, or choose another GPU"
    )


@pytest.mark.parametrize(
    ("used", "said"),
    [
        ((79.0, 78.0, 0.5), LACKED),
        ((70.0,), LACKED.replace("4.00 GiB", "10.00 TiB")),
        ((70.0,), f"{LACKED} Including non-PyTorch memory, this process has 77.50 GiB memory in use."),
        ((7.9,), "ALLOC_FAILED"),
        ((7.9,), LACKED.replace("4.00 GiB", "1..2 GiB")),
    ],
    ids=[
        "our processes held it",
        "no GPU has so much",
        "it took all piece by piece",
        "others hold little",
        "no number",
    ],
)
def test_the_kernels_own_fault(monkeypatch: pytest.MonkeyPatch, used: tuple[float, ...], said: str) -> None:
    Gpu(monkeypatch, *used)
    assert held_by_others("abc", said) is None


def test_where_nothing_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_memory, "memory_of", lambda gpu: None)
    assert not may_be_short("abc") and not may_be_short(None)
    assert held_by_others("abc", LACKED) is None and held_by_others(None, LACKED) is None


@pytest.mark.parametrize(
    ("used", "status", "says"),
    [(70.0, Status.NOT_MEASURED, "tried 3 times; `resume` measures it"), (2.0, Status.RUNTIME_ERROR, LACKED)],
    ids=["others hold it", "nobody does"],
)
def test_an_evaluation(
    scale_problem: Problem, monkeypatch: pytest.MonkeyPatch, used: float, status: Status, says: str
) -> None:
    told = ReferenceClient.environment
    environment = property(lambda self: {**told.__get__(self, ReferenceClient), "uuid": "abc"})
    monkeypatch.setattr(ReferenceClient, "environment", environment)
    Gpu(monkeypatch, used)
    with LocalEvaluator(settings=FAST) as evaluator:
        (found,) = evaluator.evaluate(scale_problem, HUNGRY, [{}])
        assert found.status is status, found.message
        assert says in found.message
        (fine,) = evaluator.evaluate(scale_problem, torch_kernel("return x * self.weight"), [{}])
    assert fine.status is Status.OK, fine.message
