"""Times that vary much are not believed, whatever used the cores."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from itertools import count, cycle
from types import SimpleNamespace
from typing import Any

import pytest
from kernelwright.evaluators.pipeline.interleaved_timer import InterleavedTimer
from kernelwright.evaluators.settings import Sampling, Settings
from kernelwright.evaluators.timing.contention import LoadMeter
from kernelwright.evaluators.workers.channel import Message

from ...fakes import PROBLEM


@pytest.fixture(scope="module")
def asleep() -> Iterator[int]:
    """The number of a process whose threads sleep: none is waited for."""
    with subprocess.Popen(["sleep", "300"]) as process:
        yield process.pid
        process.kill()


@pytest.mark.parametrize(
    ("stalled", "quick", "contention"), [([], False, None), ([24.0, 24.0], False, 0.0), ([24.0, 24.0], True, None)]
)
def test_a_reference_that_stalls_now_and_then_marks_the_timing(
    stalled: list[float], quick: bool, contention: float | None, asleep: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LoadMeter, "other_cores", lambda self: 0.0)
    of_reference = cycle([1.0, 1.1, 1.0, *stalled])

    def timer(times: Any) -> Any:
        def take(samples: int) -> Message:
            return {"samples_ms": [next(times) for _ in range(samples)], "method": "made up"}

        return take

    client: Any = SimpleNamespace(
        pid=asleep,
        problem=PROBLEM,
        environment={"device": "test"},
        arithmetic={"default_is_reference": True},
        timer=lambda seeds, graph: timer(of_reference),
    )
    processes: Any = SimpleNamespace(server_pids=())
    measuring = InterleavedTimer("cpu", Settings(), processes, None)
    sampling = Sampling(max_samples=40, seconds=0.05, quiet_timeout_s=0.0)
    sampling = sampling.quick() if quick else sampling
    found = measuring.time(client, [timer(cycle([0.5, 0.51]))], asleep, lambda: iter(count()), sampling)
    assert found.contention == contention
    assert found.reference is not None
    assert found.reference.measurement.median_ms < 1.2
