"""Hidden work: found in numbers, and told from the work of others on the device."""

from __future__ import annotations

import pytest
from kernelwright.evaluators.timing import hidden_work as module
from kernelwright.evaluators.timing.hidden_work import CONFIRMATIONS, HiddenWorkDetector, IdleDevice, hidden_work

FOUND = "each call kept the device busy for 1.000 ms beyond the 0.100 ms that its events report"


def test_hidden_work_in_numbers() -> None:
    assert hidden_work([0.005] * 5, [0.055] * 5, 0.045) is None
    assert hidden_work([0.005] * 5, [0.055] * 3 + [0.9] * 2, 0.045) is None  # the processor was interrupted
    assert hidden_work([0.005] * 5, [0.105] * 3 + [0.9] * 2, 0.045) is not None
    assert hidden_work([10.0] * 5, [10.9] * 5, 0.045) is None
    assert hidden_work([10.0] * 5, [11.1] * 5, 0.045) is not None
    assert hidden_work([0.005] * 2, [0.6] * 2, 0.045) is None  # two may well have been interrupted
    assert hidden_work([0.005], [12.0], 0.045) is not None
    assert hidden_work([1.0], [1.0, 1.0], 0.0) is not None
    assert hidden_work([], [], 0.0) is not None
    assert hidden_work([1.0], [float("nan")], 0.0) is not None
    assert hidden_work([1.0, 2.0], [1.0, 2.0], 0.0) is None  # a CPU


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that pass only where something sleeps."""
    passed = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: passed[0])
    monkeypatch.setattr(module.time, "sleep", lambda seconds: passed.__setitem__(0, passed[0] + seconds))
    return passed


def test_work_on_a_device_that_is_idle_without_the_candidate_is_its_own(clock: list[float]) -> None:
    suspicion = HiddenWorkDetector(IdleDevice(0.045, lambda: 0.05))
    verdicts = [suspicion.confirmed(FOUND) for _ in range(CONFIRMATIONS)]
    assert verdicts == [*[None] * (CONFIRMATIONS - 1), FOUND]
    assert clock == [0.0]


def test_others_on_the_device_prove_nothing(clock: list[float]) -> None:
    empty = iter([1.2, 3.0] * 10)
    suspicion = HiddenWorkDetector(IdleDevice(0.045, lambda: next(empty)))
    assert [suspicion.confirmed(FOUND) for _ in range(20)] == [None] * 20
    assert clock[0] > 1


def test_a_device_that_stays_busy_rejects_and_says_what_may_be_the_cause(clock: list[float]) -> None:
    suspicion = HiddenWorkDetector(IdleDevice(0.045, lambda: 1.2))
    verdict = None
    while verdict is None:
        verdict = suspicion.confirmed(FOUND)
    assert verdict.startswith(FOUND) and "another process" in verdict
    assert module.BUSY_S < clock[0] < module.BUSY_S + 1


def test_an_empty_call_that_was_first_measured_on_a_busy_device_is_corrected() -> None:
    idle = IdleDevice(2.0, lambda: 0.045)
    assert not idle.is_busy()
    assert idle.empty_ms == 0.045
