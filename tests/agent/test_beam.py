"""A beam: several candidates are kept, and expanded side by side."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from kernelwright.agent.bottleneck import Analysis
from kernelwright.agent.population import Population
from kernelwright.agent.proposer import RunEndedError, TurnContext
from kernelwright.agent.stopping import StoppingCriteria
from kernelwright.agent.turn import Attempt, Candidate
from kernelwright.core import Config, Journal, Kernel, Proposal, ReplyPendingError, SearchSpace, TurnRecord
from kernelwright.core.events import Finished

from ..fakes import evaluation, kernel
from .made_up import Heard, Planned, Scripted, run

START = kernel(20.0)


def wide(beam: int, iterations: int = 10) -> StoppingCriteria:
    return StoppingCriteria(target_speedup=1e9, max_iterations=iterations, beam=beam)


def candidate(latency: float, contention: float | None = None) -> Candidate:
    return Candidate(kernel(latency), evaluation(kernel(latency), Config(), latency, contention))


def given(proposer: Planned, number: int) -> list[tuple[float, int]]:
    """What the lanes of an iteration were given: the candidate's time, and the variant."""
    lanes = [lane for lane in sorted(proposer.contexts) if lane.startswith(f"{number}.")]
    return [(proposer.contexts[lane].candidate.latency_ms, proposer.contexts[lane].variant) for lane in lanes]


def test_expansions_are_distributed_over_the_candidates(tmp_path: Path) -> None:
    plan = {"1.0": [kernel(30.0)], "2.0": [kernel(40.0)], "3.0": [kernel(25.0)]}
    proposer = Planned(plan)
    outcome = run(tmp_path, START, proposer, criteria=wide(4, iterations=4))
    assert given(proposer, 1) == [(20.0, 0), (20.0, 1), (20.0, 2), (20.0, 3)]
    assert given(proposer, 2) == [(20.0, 0), (30.0, 0), (20.0, 1), (30.0, 1)]
    assert given(proposer, 3) == [(20.0, 0), (30.0, 0), (40.0, 0), (20.0, 1)]
    assert [(turn.number, turn.lane) for turn in outcome.turns] == [(1, 0), (2, 0), (3, 0)]
    assert outcome.stopped == "3 turns in a row improved by less than 5%"


def test_slower_candidates_lead_on_and_the_slowest_is_let_go(tmp_path: Path) -> None:
    plan = {
        "1.0": [kernel(25.0)],
        "1.1": [kernel(30.0)],
        "1.2": [kernel(22.0)],
        "2.0": [kernel(21.0)],
        "2.1": [kernel(5.0)],  # from 22.0, which was slower than the start
        "3.0": [kernel(4.0)],
    }
    proposer = Planned(plan)
    outcome = run(tmp_path, START, proposer, criteria=wide(3))
    assert given(proposer, 2) == [(20.0, 0), (22.0, 0), (25.0, 0)]
    assert given(proposer, 3) == [(5.0, 0), (20.0, 0), (21.0, 0)]
    assert outcome.turns[4].before.latency_ms == 22.0
    assert [turn.improved for turn in outcome.turns] == [False, False, False, False, True, True]
    assert outcome.best.latency_ms == 4.0


def test_candidates_are_distinct(tmp_path: Path) -> None:
    proposer = Planned({"1.0": [kernel(15.0)], "1.1": [kernel(15.0)], "1.2": [START]})
    evaluator = Scripted()
    outcome = run(tmp_path, START, proposer, evaluator, criteria=wide(3))
    assert given(proposer, 2) == [(15.0, 0), (20.0, 0), (15.0, 1)]
    assert [turn.improved for turn in outcome.turns] == [True, False, False], "one of them became the best"
    assert evaluator.calls.count(kernel(15.0).source) == 2, "once, and at the last check"


def test_only_one_turn_of_an_iteration_becomes_the_best(tmp_path: Path) -> None:
    proposer = Planned({"1.0": [kernel(10.0)], "1.1": [kernel(5.0)], "1.2": [kernel("timeout")]})
    outcome = run(tmp_path, START, proposer, criteria=wide(3))
    assert [(turn.improved, turn.gain) for turn in outcome.turns] == [(False, 1.0), (True, 4.0), (False, 1.0)]
    assert [turn.helped for turn in outcome.turns] == [True, True, False]


def test_when_the_best_fails_its_check_the_next_of_its_iteration_serves(tmp_path: Path) -> None:
    def flaky(bound: Kernel, call: int) -> str | None:
        return "wrong_value" if bound.constants["RESULT"] == 5.0 and call > 3 else None

    proposer = Planned({"1.0": [kernel(10.0)], "1.1": [kernel(5.0)]})
    outcome = run(tmp_path, START, proposer, Scripted(change=flaky), wide(2, iterations=1))
    assert outcome.best.latency_ms == 10.0
    assert outcome.verified


def test_patience_counts_rounds(tmp_path: Path) -> None:
    slower = {f"{number}.{lane}": [kernel(30.0 + number + lane / 8)] for number in range(1, 9) for lane in range(3)}
    outcome = run(tmp_path, START, Planned(slower), criteria=wide(3))
    assert "3 turns in a row" in outcome.stopped
    assert len(outcome.turns) == 9


def test_a_round_is_as_good_as_its_best_lane(tmp_path: Path) -> None:
    plan = {f"{number}.{lane}": [kernel(40.0 + number + lane / 8)] for number in range(1, 6) for lane in range(2)}
    plan["2.1"] = [kernel(10.0)]
    outcome = run(tmp_path, START, Planned(plan), criteria=wide(2))
    assert "3 turns in a row" in outcome.stopped
    assert outcome.turns[-1].number == 5


def test_iterations_are_rounds(tmp_path: Path) -> None:
    plan = {f"{number}.{lane}": [kernel(20.0 / 2**number - lane)] for number in range(1, 4) for lane in range(2)}
    outcome = run(tmp_path, START, Planned(plan), criteria=wide(2, iterations=2))
    assert outcome.stopped == "2 iterations done"
    assert len(outcome.turns) == 4


def test_lanes_with_nothing_to_try_do_not_end_the_run(tmp_path: Path) -> None:
    proposer = Planned({"1.1": [kernel(10.0)], "2.0": [kernel(5.0)]})
    outcome = run(tmp_path, START, proposer, criteria=wide(3))
    assert outcome.stopped == "nothing left to try"
    assert [(turn.number, turn.lane) for turn in outcome.turns] == [(1, 1), (2, 0)]


def test_lanes_run_at_the_same_time(tmp_path: Path) -> None:
    """Each of the barriers opens only when all lanes have come to it: in the analysis, and in their own evaluators."""
    asking, measuring = threading.Barrier(3, timeout=20), threading.Barrier(3, timeout=20)

    class Meeting(Planned):
        def analyse(self, context: TurnContext) -> Analysis:
            asking.wait()
            return super().analyse(context)

    met: list[Kernel] = []  # in the turns; the last check has its kernels one after another

    def meet(bound: Kernel, call: int) -> None:
        if bound != START and bound not in met:  # not at the last check, where it is alone
            met.append(bound)
            measuring.wait()

    plan = {f"1.{lane}": [kernel(5.0 + lane)] for lane in range(3)}
    evaluators = [Scripted(change=meet) for _ in range(3)]
    outcome = run(tmp_path, START, Meeting(plan), evaluators, wide(3, iterations=1))
    assert [turn.found.latency_ms for turn in outcome.turns if turn.found] == [5.0, 6.0, 7.0]
    assert sorted(len(evaluator.calls) for evaluator in evaluators) == [1, 2, 3]


def test_lanes_take_turns_on_one_evaluator(tmp_path: Path) -> None:
    inside: list[int] = []
    most: list[int] = []

    def busy(bound: Kernel, call: int) -> None:
        inside.append(call)
        time.sleep(0.002)
        most.append(len(inside))
        inside.remove(call)

    plan = {f"1.{lane}": [kernel(5.0 + lane)] for lane in range(4)}
    run(tmp_path, START, Planned(plan), Scripted(change=busy), wide(4, iterations=1))
    assert most == [1] * 7


def test_the_same_kernel_in_two_lanes_is_measured_once(tmp_path: Path) -> None:
    """The second asks while the first is measuring, though its own evaluator is free."""
    both = threading.Barrier(2, timeout=20)

    class Meeting(Planned):
        def propose(self, *arguments: object) -> Proposal | None:
            both.wait()
            return super().propose(*arguments)  # type: ignore[arg-type]

    def slow(bound: Kernel, call: int) -> None:
        time.sleep(0.05)

    evaluators = [Scripted(change=slow), Scripted(change=slow)]
    proposer = Meeting({"1.0": [kernel(5.0)], "1.1": [kernel(5.0)]})
    outcome = run(tmp_path, START, proposer, evaluators, wide(2, iterations=1))
    calls = [source for evaluator in evaluators for source in evaluator.calls]
    assert calls.count(kernel(5.0).source) == 2, "once, and at the last check"
    assert [turn.found.latency_ms for turn in outcome.turns if turn.found] == [5.0, 5.0]


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_what_goes_wrong_in_a_lane_is_raised_when_the_others_are_done(
    tmp_path: Path, kind: type[BaseException]
) -> None:
    def fail(context: TurnContext) -> Kernel:
        raise kind("a bug")

    def late(context: TurnContext) -> Kernel:
        time.sleep(0.05)
        return kernel(5.0)

    waiting = ReplyPendingError("a reply is not there")
    plan = {"1.0": [waiting], "1.1": [fail], "1.2": [late]}
    heard = Heard()
    with pytest.raises(kind, match="a bug"):
        run(tmp_path, START, Planned(plan), criteria=wide(3), emit=heard.append)
    with Journal(tmp_path / "journal.jsonl") as journal:
        assert [(turn.lane, turn.improved) for turn in journal.of(TurnRecord)] == [(2, True)]
    assert heard.of(Finished)


def test_a_lane_that_ends_the_run_lets_the_others_finish(tmp_path: Path) -> None:
    def late(context: TurnContext) -> Kernel:
        time.sleep(0.05)
        return kernel(5.0)

    outcome = run(
        tmp_path, START, Planned({"1.0": [RunEndedError("no more dollars")], "1.1": [late]}), criteria=wide(2)
    )
    assert outcome.stopped == "no more dollars"
    assert [turn.lane for turn in outcome.turns] == [1]
    assert outcome.best.latency_ms == 5.0
    assert outcome.verified


def shaken(rng: random.Random) -> Callable[[Kernel, int], None]:
    return lambda bound, call: time.sleep(rng.random() / 200)


@pytest.mark.parametrize("seed", range(6))
def test_the_order_in_which_lanes_finish_changes_nothing(tmp_path: Path, seed: int) -> None:
    tuned = kernel(20.0, SPEED=20)
    space = SearchSpace.of({"SPEED": [20, 18, 16, 14, 12]}, SPEED=20)
    searching = Proposal(tuned, "tune", "compute", "because", space)
    plan = {f"{number}.{lane}": [searching, kernel(18.0, SPEED=12)] for number in (1, 2) for lane in range(3)}
    plan |= {f"3.{lane}": [kernel("timeout"), kernel(6.0 + lane)] for lane in range(3)}
    criteria = StoppingCriteria(target_speedup=1e9, max_iterations=3, beam=3)

    def result(folder: str, evaluators: list[Scripted]) -> list[object]:
        outcome = run(tmp_path / folder, START, Planned(plan), evaluators, criteria)
        return [outcome.best, outcome.stopped, *(turn.record() for turn in outcome.turns)]

    shaking = [Scripted(change=shaken(random.Random(10 * seed + i))) for i in range(3)]
    assert result("shaken", shaking) == result("calm", [Scripted()])


def test_the_best_stays_until_it_is_beaten_beyond_noise() -> None:
    population = Population()
    assert (population.best, population.beam(3)) == (None, [])
    first, second, third = candidate(10.0), candidate(9.95), candidate(9.0)
    population.add([first])
    population.add([second])
    assert population.best is first
    assert population.beam(1) == [first]
    population.add([third])
    assert population.best is third
    assert population.beam(9) == [third, second, first]
    assert population.beam(2) == [third, second]


def test_what_a_last_check_finds_counts_from_then_on() -> None:
    population = Population()
    first, second = candidate(10.0), candidate(5.0)
    population.add([first, second])
    population.update(second, evaluation(second.kernel, Config(), 9.95))
    assert population.best is not None
    assert (population.best.kernel, population.best.latency_ms) == (second.kernel, 9.95)
    population.update(population.best, evaluation(second.kernel, Config(), 12.0))
    assert population.best is first
    population.update(first, evaluation(first.kernel, Config(), "crashed"))
    assert population.best.kernel == second.kernel
    population.add([candidate(10.0)])
    assert population.knows(first.kernel)
    assert [member.kernel for member in population.beam(3)] == [second.kernel], "what failed does not come back"
    population.update(population.best, evaluation(second.kernel, Config(), "crashed"))
    assert population.best is None


def test_further_first_kernels_are_expanded_beside_the_start(tmp_path: Path) -> None:
    start, slower, wrong = kernel(8.0), kernel(9.0), kernel("wrong_value")
    proposer = Planned({"1.1": [kernel(4.0)]})
    outcome = run(tmp_path, start, proposer, criteria=wide(2, iterations=1), others=[slower, wrong])
    assert outcome.start.latency_ms == 8.0 and outcome.best.latency_ms == 4.0
    expanded = {lane: context.candidate.kernel for lane, context in proposer.contexts.items()}
    assert expanded == {"1.0": start, "1.1": slower}


class Improving:
    """Has nothing to try in the fastest start, and makes any other kernel twice as fast once."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def analyse(self, context: TurnContext) -> Any:
        return context.analysis

    def propose(self, context: TurnContext, failed: Sequence[Attempt] = ()) -> Proposal | None:
        source = context.candidate.kernel.source
        self.asked.append(source)
        if self.asked.count(source) > 1 or source != kernel(12.0).source:
            return None
        return Proposal(kernel(6.0), "halved", "compute", "because")


def test_where_nothing_is_left_in_the_best_start_a_slower_one_is_expanded(tmp_path: Path) -> None:
    proposer = Improving()
    outcome = run(tmp_path, kernel(10.0), proposer, criteria=wide(1), others=[kernel(12.0)])
    assert proposer.asked[:2] == [kernel(10.0).source, kernel(12.0).source]
    assert outcome.best.latency_ms == 6.0 and outcome.stopped == "nothing left to try"
    (tmp_path / "alone").mkdir()
    alone = run(tmp_path / "alone", kernel(10.0), Improving(), criteria=wide(1))
    assert alone.best.latency_ms == 10.0 and alone.stopped == "nothing left to try"
