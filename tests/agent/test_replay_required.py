"""A kernel that could only be timed in its own process is not a result, unless the caller accepts it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kernelwright.agent.stopping import StoppingCriteria
from kernelwright.core import Evaluation, Replay

from ..fakes import kernel
from .made_up import Scripted, listed, run

NOT = Replay(replayed=False, reason="reads values of a tensor into Python")
WANTED = {"target_speedup": 2.0, "max_iterations": 2}


class Replaying(Scripted):
    """Replays all kernels but those of some times."""

    def __init__(self, *without: float, accepted: bool = False) -> None:
        super().__init__()
        self._without = without
        self._accepted = accepted

    def evaluate(self, *arguments: Any, **more: Any) -> Iterator[Evaluation]:
        for found in super().evaluate(*arguments, **more):
            replay = NOT if found.latency_ms in self._without else Replay(replayed=True)
            judged = Evaluation(**{**dict(found), "replay": replay})
            yield judged.accepted() if self._accepted else judged


def test_what_is_not_replayed_does_not_reach_the_target(tmp_path: Path) -> None:
    criteria = StoppingCriteria(**WANTED)  # type: ignore[arg-type]
    proposer = listed(kernel(4.0), kernel(8.0))
    outcome = run(tmp_path, kernel(20.0), proposer, Replaying(4.0), criteria)
    assert outcome.best.latency_ms == 8.0 and outcome.verified and not outcome.reached(2)
    assert [attempt.error for attempt in outcome.turns[0].attempts] == [f"unproven: {NOT.why_not}"]


def test_unless_the_caller_accepts_it(tmp_path: Path) -> None:
    criteria = StoppingCriteria(**WANTED)  # type: ignore[arg-type]
    outcome = run(tmp_path, kernel(20.0), listed(kernel(4.0)), Replaying(4.0, accepted=True), criteria)
    assert outcome.best.latency_ms == 4.0 and outcome.reached(2)


def test_a_start_without_a_replay_may_be_improved_and_is_no_result(tmp_path: Path) -> None:
    criteria = StoppingCriteria(**WANTED)  # type: ignore[arg-type]
    outcome = run(tmp_path / "improved", kernel(20.0), listed(kernel(4.0)), Replaying(20.0), criteria)
    assert outcome.best.latency_ms == 4.0 and outcome.reached(2)
    outcome = run(tmp_path / "alone", kernel(20.0), listed(), Replaying(20.0), criteria)
    assert not outcome.verified
    assert outcome.stopped.startswith(f"no kernel passed the final check; not replayed: {NOT.reason} (`require_replay`")
