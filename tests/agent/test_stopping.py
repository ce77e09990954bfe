"""When turns are enough."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelwright.agent.bottleneck import analyse
from kernelwright.agent.proposer import TurnContext
from kernelwright.agent.stopping import StoppingCriteria, at_floor
from kernelwright.agent.turn import Candidate, Turn
from kernelwright.core import Budget, Config, Measurement

from ..fakes import PROFILE, evaluation, kernel
from .made_up import Planned, run

BEFORE = Candidate(kernel(20.0), evaluation(kernel(20.0), Config(), 20.0))
ANALYSIS = analyse(PROFILE, BEFORE.kernel, BEFORE.evaluation)


def turns(*rounds: list[float]) -> list[Turn]:
    return [
        Turn(number, lane, ANALYSIS, BEFORE, (), None, gain > 1, gain)
        for number, gains in enumerate(rounds, start=1)
        for lane, gain in enumerate(gains)
    ]


@pytest.mark.parametrize(
    ("rounds", "criteria", "says"),
    [
        ([], StoppingCriteria(), None),
        ([], StoppingCriteria(max_iterations=0), "0 iterations done"),
        ([[1.5]] * 4, StoppingCriteria(), None),
        ([[1.5]] * 5, StoppingCriteria(), "5 iterations done"),
        ([[1.5, 1.0]] * 4, StoppingCriteria(), None),
        ([[1.0]] * 2, StoppingCriteria(), None),
        ([[1.0]] * 3, StoppingCriteria(), "3 turns in a row improved by less than 5%"),
        ([[1.04]] * 3, StoppingCriteria(), "3 turns in a row improved by less than 5%"),
        ([[1.05]] * 3, StoppingCriteria(), None),
        ([[1.04]] * 3, StoppingCriteria(min_improvement=0.03), None),
        ([[1.0], [1.0], [1.5], [1.0], [1.0]], StoppingCriteria(max_iterations=9), None),
        ([[1.5], [1.0], [1.0], [1.0]], StoppingCriteria(), "3 turns in a row improved by less than 5%"),
        ([[1.0, 1.0, 1.0]], StoppingCriteria(), None),
        ([[1.0, 1.2], [1.0, 1.0], [1.0, 1.0]], StoppingCriteria(), None),
        ([[1.0, 1.0]] * 3, StoppingCriteria(), "3 turns in a row improved by less than 5%"),
    ],
)
def test_rounds_decide(rounds: list[list[float]], criteria: StoppingCriteria, says: str | None) -> None:
    assert criteria.done(turns(*rounds)) == says


@pytest.mark.parametrize(
    ("latency", "expected"), [(0.12, False), (0.105, True), (0.1, True), (0.096, True), (0.09, False)]
)
def test_the_floor_is_reached_within_five_per_cent_and_not_where_it_is_undercut(latency: float, expected: bool) -> None:
    found = evaluation(kernel(latency), Config(), latency)
    assert PROFILE.floor_ms == pytest.approx(0.1)
    assert at_floor(PROFILE, found) is expected


def test_a_floor_that_the_reference_undercuts_stops_nothing() -> None:
    found = evaluation(kernel(0.1), Config(), 0.1)
    assert not at_floor(PROFILE, found.model_copy(update={"reference": Measurement(samples_ms=(0.09,) * 3)}))


@pytest.mark.parametrize(("reference", "expected"), [(0.1, False), (0.103, True), (0.2, True)])
def test_a_kernel_that_is_slower_than_the_reference_is_at_no_floor(reference: float, expected: bool) -> None:
    beside = {"reference": Measurement(samples_ms=(reference,) * 3)}
    found = evaluation(kernel(0.104), Config(), 0.104).model_copy(update=beside)
    assert at_floor(PROFILE, found) is expected


def test_a_failure_is_at_no_floor() -> None:
    assert not at_floor(PROFILE, evaluation(kernel("timeout"), Config(), "timeout"))


def test_a_limit_that_ends_a_turn_before_anything_is_measured_is_why_the_run_ends(tmp_path: Path) -> None:
    """There may have been more to try, so the run can go on with more time."""
    now = [0.0]

    def slow(context: TurnContext) -> None:
        now[0] += 100.0

    criteria = StoppingCriteria(target_speedup=1e9, max_iterations=None, budget=Budget(seconds=60.0))
    outcome = run(tmp_path, kernel(20.0), Planned({"1.0": [slow]}), criteria=criteria, clock=lambda: now[0])
    assert outcome.stopped.startswith("budget of 60 seconds") and outcome.cut_short
    assert not outcome.turns
