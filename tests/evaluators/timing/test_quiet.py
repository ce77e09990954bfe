"""What surrounds a timing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from kernelwright.evaluators.settings import Sampling
from kernelwright.evaluators.timing import quiet
from kernelwright.evaluators.timing.quiet import QuietTimer
from kernelwright.evaluators.workers.channel import Message


@pytest.mark.parametrize("on_cpu", [True, False])
def test_what_is_timed_comes_before_other_processes_on_any_device(
    monkeypatch: pytest.MonkeyPatch, on_cpu: bool
) -> None:
    log: list[str] = []

    @contextlib.contextmanager
    def raised(groups: tuple[int, ...]) -> Iterator[None]:
        log.append(f"raised {groups}")
        yield
        log.append("as before")

    def timer(samples: int) -> Message:
        log.append("timed")
        return {"samples_ms": [1.0] * samples, "method": "made up"}

    monkeypatch.setattr(quiet, "raised", raised)
    monkeypatch.setattr(quiet, "wait_until_asleep", lambda processes: None)
    QuietTimer(on_cpu).time([timer], (7, 8), (), Sampling(seconds=0.01, quiet_timeout_s=0.0))
    assert log[0] == "raised (7, 8)" and log[-1] == "as before" and set(log[1:-1]) == {"timed"}
