"""The loop's decisions, with an evaluator that answers from a table: no compiler, no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from kernelwright.agent.analysis import Analysis, Category, analyse
from kernelwright.agent.loop import Goal, Optimization, Outcome
from kernelwright.agent.turn import Turn
from kernelwright.core import (
    Budget,
    Config,
    Evaluation,
    Journal,
    Kernel,
    Problem,
    Profile,
    Proposal,
    SearchSpace,
    Status,
)

from ..fakes import PROBLEM, PROFILE, evaluation, kernel


class Scripted:
    """Evaluates what the source says; `after` counts down to an interruption."""

    def __init__(
        self, after: int | None = None, change: Callable[[Kernel, int], float | str | None] | None = None
    ) -> None:
        self.calls: list[str] = []
        self.after = after
        self.change = change

    def evaluate(self, problem: Problem, kernel: Kernel, configs: Iterable[Config]) -> Iterator[Evaluation]:
        for config in configs:
            if self.after is not None and len(self.calls) >= self.after:
                raise KeyboardInterrupt
            bound = kernel.bind(config)
            self.calls.append(bound.source)
            result = (self.change and self.change(bound, len(self.calls))) or bound.constants["RESULT"]
            result = bound.constants.get("SPEED", result) if isinstance(result, float) else result
            yield evaluation(kernel, config, result)

    def profile(self, problem: Problem) -> Profile:
        return PROFILE


class Listed:
    """Proposes kernels from a list, and remembers what it was told."""

    def __init__(self, *proposals: Kernel | Proposal) -> None:
        self.proposals = proposals
        self.errors: list[str] = []

    def propose(self, problem: Problem, kernel: Kernel, analysis: Analysis, turns: Sequence[Turn]) -> Proposal | None:
        self.errors = [turn.error for turn in turns]
        if len(turns) >= len(self.proposals):
            return None
        chosen = self.proposals[len(turns)]
        return chosen if isinstance(chosen, Proposal) else Proposal(chosen, f"step-{len(turns)}", "compute", "because")


class Nobody:
    def started(self, *_: object) -> None: ...
    def turn_started(self, *_: object) -> None: ...
    def trial(self, *_: object) -> None: ...
    def turn_ended(self, *_: object) -> None: ...
    def close(self) -> None: ...


def run(
    tmp_path: Path, start: Kernel, proposer: Listed, evaluator: Scripted | None = None, goal: Goal | None = None
) -> Outcome:
    with Journal(tmp_path / "journal.jsonl") as journal:
        chosen = goal or Goal(target_speedup=100, max_iterations=10)
        return Optimization(PROBLEM, start, evaluator or Scripted(), proposer, chosen, Nobody(), journal).run()


def test_stops_on_the_target(tmp_path: Path) -> None:
    outcome = run(tmp_path, kernel(20.0), Listed(kernel(8.0), kernel(4.0), kernel(2.0)), goal=Goal(target_speedup=2))
    assert outcome.stopped == "target of 2x reached"
    assert len(outcome.turns) == 2
    assert outcome.best.latency_ms == 4.0
    assert outcome.reached(2)


def test_stops_on_a_plateau(tmp_path: Path) -> None:
    proposer = Listed(*(kernel(20.0 - 0.3 * i) for i in range(9)))
    outcome = run(tmp_path, kernel(20.0), proposer)
    assert "3 turns in a row" in outcome.stopped
    assert len(outcome.turns) == 3


def test_stops_after_the_iterations_and_the_budget(tmp_path: Path) -> None:
    proposals = [kernel(20.0 / 2**i) for i in range(1, 9)]
    outcome = run(tmp_path, kernel(20.0), Listed(*proposals), goal=Goal(target_speedup=1e9, max_iterations=3))
    assert outcome.stopped == "3 iterations done"
    (tmp_path / "journal.jsonl").unlink()
    goal = Goal(target_speedup=1e9, max_iterations=9, budget=Budget(trials=3))
    assert run(tmp_path, kernel(20.0), Listed(*proposals), goal=goal).stopped == "budget of 3 trials used up"


def test_stops_when_nothing_is_proposed(tmp_path: Path) -> None:
    outcome = run(tmp_path, kernel(20.0), Listed())
    assert outcome.stopped == "nothing left to try"
    assert outcome.best.latency_ms == 20.0
    assert outcome.verified


@pytest.mark.parametrize("failure", [status.value for status in Status if status is not Status.OK])
def test_a_failed_turn_feeds_its_error_to_the_next_and_ends_nothing(tmp_path: Path, failure: str) -> None:
    proposer = Listed(kernel(failure), kernel(5.0))
    outcome = run(tmp_path, kernel(20.0), proposer)
    assert proposer.errors[0] == f"{failure}: as told"
    assert not outcome.turns[0].improved
    assert outcome.best.latency_ms == 5.0


def test_the_best_is_kept_whatever_comes_later(tmp_path: Path) -> None:
    outcome = run(tmp_path, kernel(20.0), Listed(kernel(5.0), kernel(9.0), kernel(6.0)))
    assert outcome.best.latency_ms == 5.0
    assert "RESULT = 5.0" in outcome.kernel.source


def test_a_change_within_the_noise_is_not_carried_along(tmp_path: Path) -> None:
    outcome = run(tmp_path, kernel(20.0), Listed(kernel(19.9)))
    assert "RESULT = 20.0" in outcome.kernel.source


def test_a_winner_that_fails_its_last_check_gives_way_to_the_next(tmp_path: Path) -> None:
    def flaky(bound: Kernel, call: int) -> str | None:
        return "wrong_value" if bound.constants["RESULT"] == 2.0 and call > 3 else None

    outcome = run(tmp_path, kernel(20.0), Listed(kernel(5.0), kernel(2.0)), Scripted(change=flaky))
    assert outcome.best.latency_ms == 5.0
    assert outcome.verified


def test_a_target_reached_by_luck_does_not_stop_the_run(tmp_path: Path) -> None:
    def lucky(bound: Kernel, call: int) -> float | None:
        return 4.0 if bound.constants["RESULT"] == 6.0 and call == 2 else None

    proposals = Listed(kernel(6.0), kernel(3.0))
    outcome = run(tmp_path, kernel(20.0), proposals, Scripted(change=lucky), Goal(target_speedup=2))
    assert len(outcome.turns) == 2
    assert outcome.best.latency_ms == 3.0
    assert outcome.reached(2)


def test_a_start_that_fails_ends_the_run(tmp_path: Path) -> None:
    outcome = run(tmp_path, kernel("wrong_value"), Listed(kernel(5.0)))
    assert not outcome.verified
    assert outcome.turns == ()
    assert "start kernel" in outcome.stopped


def test_a_space_is_searched_and_nothing_is_measured_twice(tmp_path: Path) -> None:
    tuned = kernel(20.0, SPEED=20)
    space = SearchSpace.of({"SPEED": [20, 16, 12, 8, 4]}, SPEED=20)
    searching = Proposal(tuned, "tune", "compute", "because", space)
    evaluator = Scripted()
    outcome = run(tmp_path, tuned, Listed(searching, searching), evaluator)
    assert outcome.best.latency_ms == 4.0
    assert outcome.kernel.constants["SPEED"] == 4
    before_the_last_check = evaluator.calls[1:-1]
    assert len(before_the_last_check) == len(set(before_the_last_check))


@pytest.mark.parametrize("after", range(1, 7))
def test_resume_goes_on_without_measuring_anything_twice(tmp_path: Path, after: int) -> None:
    tuned = kernel(20.0, SPEED=20)
    space = SearchSpace.of({"SPEED": [20, 16, 12, 8]}, SPEED=20)
    proposals = [kernel(18.0), Proposal(tuned, "tune", "compute", "because", space), kernel("timeout"), kernel(3.0)]
    whole = Scripted()
    expected = run(tmp_path / "whole", kernel(20.0), Listed(*proposals), whole)
    first, second = Scripted(after=after), Scripted()
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", kernel(20.0), Listed(*proposals), first)
    resumed = run(tmp_path / "cut", kernel(20.0), Listed(*proposals), second)
    assert first.calls + second.calls == whole.calls
    assert resumed.best == expected.best
    assert [turn.record() for turn in resumed.turns] == [turn.record() for turn in expected.turns]
    with Journal(tmp_path / "cut" / "journal.jsonl") as journal:
        assert len(list(journal.of_kind("turn"))) == len(expected.turns)


def test_a_speedup_measured_beside_others_is_no_reason_to_stop(tmp_path: Path) -> None:
    class Busy(Scripted):
        def evaluate(self, problem: Problem, kernel: Kernel, configs: Iterable[Config]) -> Iterator[Evaluation]:
            for found in super().evaluate(problem, kernel, configs):
                yield found.model_copy(update={"contention": 0.9})

    outcome = run(tmp_path, kernel(1.0), Listed(), Busy(), Goal(target_speedup=2))
    assert outcome.stopped == "nothing left to try"
    assert not outcome.reached(2)


def test_analysis_names_the_bottleneck_from_figures() -> None:
    start = evaluation(kernel(1.0), Config(), 1.0)
    found = analyse(PROFILE, kernel(1.0), start)
    # A tenth of a millisecond is the floor, one of two cores is idle: five times is left for instructions.
    assert found.category is Category.COMPUTE
    assert found.work == "streams"
    near = evaluation(kernel(0.21), Config(), 0.21)
    assert analyse(PROFILE, kernel(0.21), near).category is Category.PARALLELISM
    busy = near.model_copy(update={"cores_used": 2.0})
    close = evaluation(kernel(0.13), Config(), 0.13).model_copy(update={"cores_used": 2.0})
    once = PROFILE.model_copy(update={"eager_bytes": 1e6})
    assert analyse(once, kernel(0.13), close).category is Category.MEMORY
    many = PROFILE.model_copy(update={"eager_bytes": 1e9})
    assert analyse(many, kernel(0.13), close).category is Category.ALGORITHM
    assert analyse(PROFILE, kernel(0.21), busy).ranking[0] is not Category.PARALLELISM


@pytest.mark.parametrize(
    ("latency", "tier", "performance"),
    [
        (25.0, "critical", "SLOW"),
        (15.0, "moderate", "SLOW"),
        (10.0, "fine-tuning", "MODERATE"),
        (5.0, "advanced", "GOOD"),
    ],
)
def test_tiers_of_the_speedup(latency: float, tier: str, performance: str) -> None:
    found = analyse(PROFILE, kernel(latency), evaluation(kernel(latency), Config(), latency))
    assert (found.tier, found.performance) == (tier, performance)
    assert found.suggestions
