"""Every ratio that a run tells was measured in one run: that of its last check, in which the start takes part."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernelwright.agent.bottleneck import analyse
from kernelwright.agent.loop import Outcome
from kernelwright.agent.turn import BY_TOOL, Attempt, Candidate, Turn
from kernelwright.core import Config, Evaluation, Kernel, Measurement, Proposal, Trial, read_journal
from kernelwright.core.journal import of

from ..fakes import PROFILE, evaluation, kernel
from .made_up import Scripted, listed, run

START, WINNER = kernel(3.3, N=0), kernel(0.607, N=1)


class Measured(Scripted):
    """Gives the times that each kernel is found to have, one after the other, and the contention of each contest."""

    def __init__(self, times: dict[Kernel, list[float]], contention: float | None = None) -> None:
        super().__init__()
        self._times = {kernel.source: iter(found) for kernel, found in times.items()}
        self._last = contention

    def _result(self, bound: Kernel, number: int) -> float | str:
        return next(self._times[bound.source])

    def contest(self, *arguments: Any) -> list[Evaluation]:
        self.contests = getattr(self, "contests", 0) + 1
        reference = Measurement(samples_ms=(10.0 + self.contests,) * 3)
        update = {"reference": reference, "contention": self._last}
        return [evaluation.model_copy(update=update) for evaluation in super().contest(*arguments)]


def test_the_start_is_timed_beside_the_winner(tmp_path: Path) -> None:
    """Its first time was disturbed: 3.3 ms, while beside the winner it takes 1.686."""
    evaluator = Measured({START: [3.3, 1.686], WINNER: [0.601, 0.607]})
    outcome = run(tmp_path, START, listed(WINNER), evaluator)
    assert (outcome.start.latency_ms, outcome.best.latency_ms) == (1.686, 0.607)
    assert outcome.gain is not None and outcome.gain.ratio == pytest.approx(1.686 / 0.607)
    assert outcome.start.reference == outcome.best.reference
    assert outcome.faster
    origins = [trial.origin for trial in of(read_journal(tmp_path / "journal.jsonl"), Trial)]
    assert origins == ["start", "turn 1: step-1.0", "final: start", "final"]


def test_the_mark_of_a_disturbance_is_on_both(tmp_path: Path) -> None:
    evaluator = Measured({START: [3.3, *[1.7] * 3], WINNER: [0.6] * 4}, contention=0.9)
    outcome = run(tmp_path, START, listed(WINNER), evaluator)
    assert outcome.verified and outcome.start.contention == outcome.best.contention == 0.9


def test_what_only_looked_faster_than_a_disturbed_start_is_not(tmp_path: Path) -> None:
    """The result is the start, as it was timed beside what was taken for faster."""
    evaluator = Measured({START: [3.3, 1.0], WINNER: [1.02, 1.01]})
    outcome = run(tmp_path, START, listed(WINNER), evaluator)
    assert outcome.verified and not outcome.faster
    assert outcome.kernel == START and outcome.best == outcome.start
    assert outcome.best.latency_ms == 1.0 and outcome.gain is not None and outcome.gain.ratio == 1.0


def test_a_resumed_run_takes_both_from_one_run_or_none(tmp_path: Path) -> None:
    def again(start: list[float], winner: list[float]) -> Outcome:
        return run(tmp_path, START, listed(WINNER), Measured({START: start, WINNER: winner}))

    first = again([3.3, 1.7], [0.6, 0.5])
    assert again([], []).gain == first.gain, "nothing is measured again"
    path = tmp_path / "journal.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if '"final: start"' not in line))
    resumed = again([3.0], [1.0])
    assert resumed.gain is not None and resumed.gain.ratio == pytest.approx(3.0)
    assert resumed.start.reference == resumed.best.reference


def searched(times: dict[str, float]) -> Iterator[Attempt]:
    for name, latency in times.items():
        proposed = kernel(latency)
        found = evaluation(proposed, Config(), latency)
        yield Attempt(Proposal(proposed, name, "compute", f"why {name}"), (found,))


def test_the_recorded_turn_is_the_winners() -> None:
    """The most promising change is searched first, and the last one is not what the turn found."""
    before = Candidate(START, evaluation(START, Config(), 3.3))
    attempts = tuple(searched({"split-grid": 1.0, "licm": 2.0}))
    analysis = analyse(PROFILE, before.kernel, before.evaluation)
    found = Candidate(kernel(1.0), attempts[0].evaluations[0])
    record = Turn(1, 0, analysis, before, attempts, found, improved=True, gain=3.3).record()
    assert (record.strategy, record.rationale) == ("split-grid", "why split-grid")
    assert record.metrics is not None and record.metrics.latency_ms == 1.0
    nothing = Turn(1, 0, analysis, before, attempts, None).record()
    assert nothing.strategy == "licm", "without a result, the last one"
    tool = Candidate(kernel(0.5), evaluation(kernel(0.5), Config(), 0.5))
    assert Turn(1, 0, analysis, before, attempts, tool).record().strategy == BY_TOOL
