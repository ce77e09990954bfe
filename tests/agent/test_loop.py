"""The loop's decisions, with an evaluator that answers from a table: no compiler, no clock."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelwright.agent.bottleneck import Category, analyse
from kernelwright.agent.proposer import TurnContext
from kernelwright.agent.stopping import StoppingCriteria
from kernelwright.core import Config, Kernel, Proposal, SearchSpace, Status
from kernelwright.core.events import Finished

from ..fakes import PROFILE, evaluation, kernel
from .made_up import ENDLESS, Beside, Heard, Planned, Scripted, listed, run, trials


def test_stops_on_the_target(tmp_path: Path) -> None:
    outcome = run(
        tmp_path,
        kernel(20.0),
        listed(kernel(8.0), kernel(4.0), kernel(2.0)),
        criteria=StoppingCriteria(target_speedup=2),
    )
    assert outcome.stopped == "target of 2x reached"
    assert not outcome.cut_short
    assert len(outcome.turns) == 2
    assert outcome.best.latency_ms == 4.0
    assert outcome.reached(2)


def test_a_start_that_is_fast_enough_is_left_alone(tmp_path: Path) -> None:
    outcome = run(tmp_path, kernel(5.0), listed(kernel(1.0)), criteria=StoppingCriteria(target_speedup=2))
    assert (outcome.stopped, outcome.turns) == ("target of 2x reached", ())
    assert outcome.reached(2)
    assert not outcome.reached(2.1)


def test_without_a_target_a_run_ends_when_nothing_is_left(tmp_path: Path) -> None:
    criteria = StoppingCriteria(target_speedup=None, max_iterations=None)
    steps = listed(kernel(8.0), kernel(4.0), kernel(2.0))
    outcome = run(tmp_path, kernel(20.0), steps, criteria=criteria)
    assert "target" not in outcome.stopped
    assert (len(outcome.turns), outcome.best.latency_ms, outcome.reached(None)) == (3, 2.0, None)


@pytest.mark.parametrize(("against", "turns"), [("strict", 1), ("default", 2), ("compile", 3)])
def test_the_target_is_over_its_baseline(tmp_path: Path, against: str, turns: int) -> None:
    """The reference takes 10 ms, PyTorch's defaults 5, torch.compile 2.5."""
    criteria = StoppingCriteria(target_speedup=2, against=against)
    steps = listed(*map(kernel, (5.0, 2.5, 1.25, 0.6)))
    outcome = run(tmp_path, kernel(20.0), steps, Beside({"default": 5.0, "compile": 2.5}), criteria=criteria)
    assert (outcome.stopped, len(outcome.turns)) == ("target of 2x reached", turns)
    assert outcome.reached(2, against) and not outcome.reached(2.1, against)


def test_a_baseline_that_was_not_measured_ends_the_run(tmp_path: Path) -> None:
    criteria = StoppingCriteria(target_speedup=2, against="compile")
    outcome = run(tmp_path, kernel(20.0), listed(kernel(1.0)), criteria=criteria)
    assert outcome.stopped == "the start kernel, ok: not timed against torch.compile"
    assert not outcome.reached(2, "compile") and not outcome.turns


def test_stops_on_a_plateau(tmp_path: Path) -> None:
    outcome = run(tmp_path, kernel(20.0), listed(*(kernel(20.0 - 0.3 * i) for i in range(9))))
    assert "3 turns in a row" in outcome.stopped
    assert len(outcome.turns) == 3


def test_stops_after_the_iterations_and_the_budget(tmp_path: Path) -> None:
    proposals = [kernel(20.0 / 2**i) for i in range(1, 9)]
    outcome = run(
        tmp_path, kernel(20.0), listed(*proposals), criteria=StoppingCriteria(target_speedup=1e9, max_iterations=3)
    )
    assert outcome.stopped == "3 iterations done"
    (tmp_path / "journal.jsonl").unlink()
    assert run(tmp_path, kernel(20.0), listed(*proposals), criteria=trials(3)).stopped == "budget of 3 trials used up"


def test_stops_when_nothing_is_proposed(tmp_path: Path) -> None:
    outcome = run(tmp_path, kernel(20.0), listed())
    assert outcome.stopped == "nothing left to try"
    assert outcome.turns == ()
    assert outcome.best.latency_ms == 20.0
    assert outcome.verified


def test_stops_where_the_roofline_leaves_nothing(tmp_path: Path) -> None:
    """The floor is 0.1 ms."""
    proposer = listed(kernel(0.11), kernel(0.105), kernel(0.05))
    outcome = run(tmp_path, kernel(20.0), proposer)
    assert outcome.stopped == "95% of what the roofline allows reached"
    assert outcome.best.latency_ms == 0.105
    assert len(outcome.turns) == 2


def test_a_roofline_reached_by_luck_does_not_stop_the_run(tmp_path: Path) -> None:
    def lucky(bound: Kernel, call: int) -> float | None:
        return 0.1 if bound.constants["RESULT"] == 6.0 and call == 2 else None

    outcome = run(tmp_path, kernel(20.0), listed(kernel(6.0), kernel(3.0)), Scripted(change=lucky))
    assert outcome.stopped == "nothing left to try"
    assert outcome.best.latency_ms == 3.0


@pytest.mark.parametrize("failure", [status.value for status in Status if status not in (Status.OK, Status.UNPROVEN)])
def test_a_failed_turn_feeds_its_error_to_the_next_and_ends_nothing(tmp_path: Path, failure: str) -> None:
    proposer = listed(kernel(failure), kernel(5.0))
    outcome = run(tmp_path, kernel(20.0), proposer)
    assert [turn.error for turn in proposer.contexts["2.0"].turns] == [f"{failure}: as told"]
    assert not outcome.turns[0].improved
    assert outcome.best.latency_ms == 5.0


def test_the_best_is_kept_whatever_comes_later(tmp_path: Path) -> None:
    outcome = run(tmp_path, kernel(20.0), listed(kernel(5.0), kernel(9.0), kernel(6.0)))
    assert outcome.best.latency_ms == 5.0
    assert "RESULT = 5.0" in outcome.kernel.source
    assert [(turn.improved, turn.gain) for turn in outcome.turns] == [(True, 4.0), (False, 1.0), (False, 1.0)]


def test_a_change_within_the_noise_is_not_carried_along(tmp_path: Path) -> None:
    outcome = run(tmp_path, kernel(20.0), listed(kernel(19.9)))
    assert "RESULT = 20.0" in outcome.kernel.source


def test_a_winner_that_fails_its_last_check_gives_way_to_the_next(tmp_path: Path) -> None:
    def flaky(bound: Kernel, call: int) -> str | None:
        return "wrong_value" if bound.constants["RESULT"] == 2.0 and call > 3 else None

    outcome = run(tmp_path, kernel(20.0), listed(kernel(5.0), kernel(2.0)), Scripted(change=flaky))
    assert outcome.best.latency_ms == 5.0
    assert outcome.verified


def test_a_winner_that_is_slower_at_its_last_check_gives_way_to_a_faster_one(tmp_path: Path) -> None:
    def lucky(bound: Kernel, call: int) -> float | None:
        return 2.0 if bound.constants["RESULT"] == 9.0 and call == 3 else None

    outcome = run(tmp_path, kernel(20.0), listed(kernel(5.0), kernel(9.0)), Scripted(change=lucky))
    assert [turn.improved for turn in outcome.turns] == [True, True]
    assert outcome.best.latency_ms == 5.0
    assert outcome.verified


def test_a_kernel_that_failed_its_last_check_does_not_come_back(tmp_path: Path) -> None:
    """The target has it checked in the midst of the run; proposed again, it is as it was found to be then."""

    def flaky(bound: Kernel, call: int) -> str | None:
        return "wrong_value" if bound.constants["RESULT"] == 2.0 and call > 2 else None

    evaluator = Scripted(change=flaky)
    proposer = listed(kernel(2.0), kernel(2.0), kernel(12.0))
    outcome = run(tmp_path, kernel(20.0), proposer, evaluator, StoppingCriteria(target_speedup=4, max_iterations=10))
    assert proposer.contexts["2.0"].candidate.latency_ms == 20.0
    assert outcome.turns[1].error == "wrong_value: as told"
    assert outcome.best.latency_ms == 12.0
    assert len(evaluator.calls) == 7  # start, 2.0, its check beside the start, 12.0, its check beside the start


def test_a_run_whose_only_kernel_fails_its_check_ends_unverified(tmp_path: Path) -> None:
    def flaky(bound: Kernel, call: int) -> str | None:
        return "wrong_value" if call > 1 else None

    outcome = run(
        tmp_path, kernel(2.0), listed(kernel(1.0)), Scripted(change=flaky), StoppingCriteria(target_speedup=2)
    )
    assert outcome.stopped == "no kernel passed the final check"
    assert not outcome.verified
    assert outcome.kernel == kernel(2.0)


def test_a_target_reached_by_luck_does_not_stop_the_run(tmp_path: Path) -> None:
    def lucky(bound: Kernel, call: int) -> float | None:
        return 4.0 if bound.constants["RESULT"] == 6.0 and call == 2 else None

    proposals = listed(kernel(6.0), kernel(3.0))
    outcome = run(tmp_path, kernel(20.0), proposals, Scripted(change=lucky), StoppingCriteria(target_speedup=2))
    assert len(outcome.turns) == 2
    assert proposals.contexts["2.0"].candidate.latency_ms == 6.0
    assert outcome.best.latency_ms == 3.0
    assert outcome.reached(2)


def test_a_start_that_fails_ends_the_run(tmp_path: Path) -> None:
    heard = Heard()
    outcome = run(tmp_path, kernel("wrong_value"), listed(kernel(5.0)), emit=heard.append)
    assert not outcome.verified
    assert outcome.turns == ()
    assert "start kernel" in outcome.stopped
    assert heard.of(Finished)


def test_a_space_is_searched_once_and_its_best_is_measured_in_full(tmp_path: Path) -> None:
    tuned = kernel(20.0, SPEED=20)
    space = SearchSpace.of({"SPEED": [20, 16, 12, 8, 4]}, SPEED=20)
    searching = Proposal(tuned, "tune", "compute", "because", space)
    evaluator, searcher = Scripted(), Scripted()
    plan = Planned({"1.0": [searching], "2.0": [searching, kernel(1.0)]})
    outcome = run(tmp_path, tuned, plan, evaluator, searcher=searcher)
    assert outcome.best.latency_ms == 4.0
    assert outcome.kernel.constants["SPEED"] == 4
    assert len(evaluator.calls) == 3, "the start, and the last check beside it"
    # Five trials, then the best and the kernel as it stands beside each other; the second search is known.
    assert len(searcher.calls) == 7
    assert [len(turn.evaluations) for turn in outcome.turns] == [7, 7]
    assert [len(turn.attempts) for turn in outcome.turns] == [1, 1]


def test_a_search_of_which_one_config_is_correct_needs_no_repair(tmp_path: Path) -> None:
    def narrow(bound: Kernel, call: int) -> str | None:
        return "wrong_value" if bound.constants.get("SPEED") in (16, 12) else None

    tuned = kernel(20.0, SPEED=20)
    searching = Proposal(tuned, "tune", "compute", "because", SearchSpace.of({"SPEED": [16, 12, 8]}, SPEED=16))
    outcome = run(tmp_path, tuned, Planned({"1.0": [searching, kernel(1.0)]}), Scripted(change=narrow))
    (turn,) = outcome.turns
    assert len(turn.attempts) == 1
    assert turn.error == ""
    assert (turn.improved, outcome.best.latency_ms) == (True, 8.0)


def test_a_search_without_a_correct_config_is_to_be_repaired(tmp_path: Path) -> None:
    def wrong(bound: Kernel, call: int) -> str | None:
        return "wrong_value" if "SPEED" in bound.constants else None

    space = SearchSpace.of({"SPEED": [16, 12]}, SPEED=16)
    searching = Proposal(kernel(20.0, SPEED=16), "tune", "compute", "because", space)
    proposer = Planned({"1.0": [searching, kernel(1.0)]})
    outcome = run(tmp_path, kernel(20.0), proposer, Scripted(change=wrong))
    assert proposer.failed["1.0"] == ["wrong_value: as told"]
    assert outcome.best.latency_ms == 1.0


def test_a_speedup_measured_beside_others_is_no_reason_to_stop(tmp_path: Path) -> None:
    outcome = run(tmp_path, kernel(1.0), listed(), Scripted(contention=0.9), StoppingCriteria(target_speedup=2))
    assert outcome.stopped == "nothing left to try"
    assert not outcome.reached(2)


def test_stops_when_the_time_is_up(tmp_path: Path) -> None:
    now = [0.0]

    def slow(context: TurnContext) -> Kernel:
        now[0] += 40
        return kernel(20.0 / 2**context.lane.number)

    criteria = StoppingCriteria(target_speedup=1e9, budget=ENDLESS.budget.model_copy(update={"seconds": 100.0}))
    outcome = run(tmp_path, kernel(20.0), listed(*[slow] * 9), criteria=criteria, clock=lambda: now[0])
    assert outcome.stopped == "budget of 100 seconds used up"
    assert outcome.cut_short
    assert len(outcome.turns) == 3
    assert outcome.verified


def test_a_search_gets_no_more_trials_than_the_run_has_left(tmp_path: Path) -> None:
    """The start, one kernel, and of the four configs two; the last check comes after them."""
    tuned = kernel(16.0, SPEED=16)
    space = SearchSpace.of({"SPEED": [16, 12, 8, 4]}, SPEED=16)
    searching = Proposal(tuned, "tune", "compute", "because", space)
    outcome = run(tmp_path, kernel(20.0), listed(kernel(18.0), searching, kernel(1.0)), criteria=trials(4))
    assert (outcome.trials, len(outcome.turns), outcome.cut_short) == (4, 2, True)
    assert outcome.stopped == "budget of 4 trials used up" and outcome.verified


def test_a_lane_knows_when_the_limits_are_reached(tmp_path: Path) -> None:
    late: list[str | None] = []

    def step(context: TurnContext) -> Kernel:
        late.append(context.lane.late())
        context.lane.evaluate(kernel(6.0), Config(), "evaluate")
        late.append(context.lane.late())
        return kernel(5.0)

    run(tmp_path, kernel(20.0), listed(step), criteria=trials(2))
    assert late == [None, "budget of 2 trials used up"]


def test_analysis_names_the_bottleneck_from_metrics() -> None:
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
