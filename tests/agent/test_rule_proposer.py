"""Which rule is tried next, on which candidate of a beam, and when nothing is left; with rules that are made up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from kernelwright.agent.applied_rules import formatted
from kernelwright.agent.loop import Outcome
from kernelwright.agent.priors import NEVER_HELPED, prior_of
from kernelwright.agent.rule_proposer import TUNE, RuleProposer, joint_space
from kernelwright.agent.rules import Machine, NotApplicableError, Rewritten
from kernelwright.agent.turn import RULES
from kernelwright.core import Budget, Kernel, Parameter, PythonKernel, Target
from kernelwright.core.languages import TILELANG
from kernelwright.core.turn_record import TurnRecord
from kernelwright.tuners.discovery import space_of

from ..fakes import kernel
from .made_up import ENDLESS, Scripted, run
from .scripted_rules import START, Times, optimized, strategies, tried
from .triton_rule_cases import BY_NAME, MACHINE, from_inductor


def test_all_rules_are_tried_in_one_turn_then_those_that_helped_together(tmp_path: Path) -> None:
    rules = Times("half", 0.5), Times("worse", 2.0), Times("third", 0.3), Times("fifth", 0.2)
    outcome = optimized(tmp_path, *rules)
    first, second = outcome.turns
    singles = {"half": 2.0, "worse": 0.5, "third": 3.33, "fifth": 5.0}
    pairs = {"fifth + third": 16.67, "fifth + third + half": 33.33, "fifth + half": 10.0}
    assert tried(first) == singles | pairs
    assert (first.strategy, first.improved) == ("fifth + third + half", True)
    assert outcome.best.latency_ms == pytest.approx(0.6)
    assert (tried(second), second.strategy, second.found) == ({"worse": 0.5}, RULES, None)
    assert outcome.stopped == "nothing left to try"


def test_what_a_rule_got_wrong_costs_that_rule_only(tmp_path: Path) -> None:
    def wrong(bound: Kernel, call: int) -> str | None:
        return "wrong_value" if "HALF" in bound.constants else None

    rules = Times("half", 0.5), Times("third", 0.3)
    outcome = run(tmp_path, START, RuleProposer(Machine(cores=2), rules), Scripted(change=wrong))
    assert tried(outcome.turns[0]) == {"half": 0.0, "third": 3.33}
    assert [attempt.error for attempt in outcome.turns[0].attempts] == ["wrong_value: as told", "", ""]
    assert (outcome.turns[0].strategy, outcome.turns[0].error) == ("third", "")
    assert outcome.best.latency_ms == pytest.approx(6.0)


def test_no_rules_and_no_sizes_leave_nothing_to_try(tmp_path: Path) -> None:
    outcome = optimized(tmp_path)
    assert (outcome.stopped, outcome.turns) == ("nothing left to try", ())


@pytest.mark.failing_rules
def test_a_rule_that_fails_costs_itself_alone_and_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever it raises that is not a NotApplicableError: an assertion is a bug too."""
    outcome = optimized(tmp_path, Times("broken", 0.5, broken=True), Times("half", 0.5))
    assert strategies(outcome) == ["1.0 half"]
    (skipped,) = outcome.turns[0].record().skipped_rules
    assert skipped.failed and skipped.rule == "broken"
    assert skipped.reason == "AssertionError: a form that the rule did not foresee"
    logged, *_ = [record for record in caplog.records if record.name == "kernelwright.agent.applied_rules"]
    assert logged.levelname == "ERROR" and logged.exc_info is not None


def test_why_a_rule_does_not_fit_is_in_the_history_once_per_kernel(tmp_path: Path) -> None:
    rules = Times("half", 0.5), Times("other", 2.0, excludes=("RESULT",))
    outcome = optimized(tmp_path, *rules, beam=2)
    told = [
        (turn.number, skipped.rule, skipped.reason, skipped.failed)
        for turn in outcome.turns
        for skipped in turn.skipped_rules
    ]
    assert told[0] == (1, "other", "the kernel has RESULT", False)
    assert len(told) == len(
        {(turn.before.kernel.digest, skipped.rule) for turn in outcome.turns for skipped in turn.skipped_rules}
    )
    assert "skipped_rules" in outcome.turns[0].record().to_json()
    old = {name: value for name, value in outcome.turns[0].record().to_json().items() if name != "skipped_rules"}
    assert TurnRecord.model_validate(old).skipped_rules == ()


def test_rules_whose_demands_contradict_each_other_are_not_combined(tmp_path: Path) -> None:
    wide = Times("wide", 0.5, brings=Parameter("TILE", [8, 16], 8), constraints=("TILE >= 8",))
    narrow = Times("narrow", 0.4, brings=Parameter("TILE", [2, 4], 2), constraints=("TILE <= 4",))
    outcome = optimized(tmp_path, wide, narrow)
    assert tried(outcome.turns[0]) == {"narrow": 2.5, "wide": 2.0}


def test_what_the_best_excludes_stops_no_longer_combination(tmp_path: Path) -> None:
    """Two ways to do the same: the best is tried with all else, the other one with what brings choices."""
    choices = Times("choices", 1.0, brings=Parameter("TILE", [2, 4], 2))
    rules = Times("fast", 0.2, excludes=("OTHER",)), Times("other", 0.3, excludes=("FAST",)), Times("half", 0.5)
    outcome = optimized(tmp_path, *rules, choices, iterations=1)
    combined = [name for name in tried(outcome.turns[0]) if "+" in name]
    assert combined == ["fast + half + choices", "fast + choices", "other + choices", "fast + half"]
    assert outcome.best.latency_ms == pytest.approx(2.0)


def test_what_is_far_slower_than_what_excludes_it_is_not_tried_again(tmp_path: Path) -> None:
    choices = Times("choices", 1.0, brings=Parameter("TILE", [2, 4], 2))
    rules = Times("fast", 0.2, excludes=("OTHER",)), Times("other", 0.6, excludes=("FAST",))
    outcome = optimized(tmp_path, *rules, choices, iterations=1)
    assert [name for name in tried(outcome.turns[0]) if "+" in name] == ["fast + choices"]


def test_choices_that_do_not_go_together_stop_no_combination(tmp_path: Path) -> None:
    times = Times("one", 1.0, brings=Parameter("TILE", [2, 4], 2), excludes=("TWO",))
    two = Times("two", 1.0, brings=Parameter("STEP", [2, 4], 2), excludes=("ONE",))
    outcome = optimized(tmp_path, Times("half", 0.5), times, two, iterations=1)
    assert [name for name in tried(outcome.turns[0]) if "+" in name] == ["half + one"]


def test_a_rule_is_applied_once_after_the_same_rules(tmp_path: Path) -> None:
    rules = Times("half", 0.5), Times("third", 0.3), Times("fifth", 0.2)
    optimized(tmp_path, *rules, iterations=1)
    for rule in rules:
        assert len(rule.applied) == len(set(rule.applied))


def test_further_expansions_of_a_kernel_search_its_parameters(tmp_path: Path) -> None:
    start = kernel(20.0, BLOCK=64)
    outcome = optimized(tmp_path, Times("half", 0.5), Times("tenth", 0.1), beam=3, iterations=1, start=start)
    assert strategies(outcome) == ["1.0 tenth + half", f"1.1 {TUNE}"]
    assert outcome.best.latency_ms == pytest.approx(1.0)


def test_the_other_candidates_of_a_beam_get_all_rules_too(tmp_path: Path) -> None:
    outcome = optimized(tmp_path, Times("half", 0.5), Times("worse", 1.5, brings=Parameter("TILE", [2, 4], 2)), beam=2)
    done = [(turn.number, turn.before.latency_ms, sorted(tried(turn))) for turn in outcome.turns if turn.tried]
    assert done == [(1, 20.0, ["half", "worse"]), (2, 10.0, ["worse"])]
    assert outcome.stopped == "nothing left to try"


def test_no_rule_is_tried_twice_on_the_same_candidate(tmp_path: Path) -> None:
    rules = Times("half", 0.5), Times("third", 0.3), Times("worse", 2.0), Times("twice", 2.0)
    outcome = optimized(tmp_path, *rules, beam=4)
    done = [(name, turn.before.kernel.digest) for turn in outcome.turns for name in tried(turn)]
    assert len(done) == len(set(done))
    assert outcome.stopped == "nothing left to try"


def test_parameters_are_searched_once_per_kernel(tmp_path: Path) -> None:
    start = kernel(20.0, BLOCK=64)
    outcome = optimized(tmp_path, Times("half", 0.5, work="products"), start=start)
    # What the rule made better was searched with it.
    assert strategies(outcome) == ["1.0 half"]
    assert {**outcome.turns[0].attempts[-1].evaluations[0].config} == {"BLOCK": 64}
    assert outcome.stopped == "nothing left to try"


def test_a_search_that_helped_is_not_repeated(tmp_path: Path) -> None:
    outcome = optimized(tmp_path, start=kernel(64.0, SPEED=64, SEARCH_SPACE={"SPEED": [16, 32, 64]}))
    (turn,) = outcome.turns
    assert (turn.strategy, turn.improved, outcome.best.latency_ms) == (TUNE, True, 16.0)


def test_a_change_that_helps_by_its_parameters_only_is_searched(tmp_path: Path) -> None:
    """As it stands it costs a tenth; at its best it is twice as fast. One that costs more is not worth a search."""
    speed = Parameter("SPEED", [22, 10, 40], 22)
    near = Times("near", 1.1, brings=speed)
    outcome = optimized(tmp_path / "near", near, iterations=1)
    assert strategies(outcome) == ["1.0 near"]
    assert (tried(outcome.turns[0]), outcome.best.latency_ms) == ({"near": 0.91}, 10.0)
    outcome = optimized(tmp_path / "far", replace(near, brings=Parameter("SPEED", [30, 10], 30)), iterations=1)
    assert strategies(outcome) == [f"1.0 {RULES}"]


def test_the_best_of_a_batch_counts_though_the_time_is_over(tmp_path: Path) -> None:
    """After the start, the kernel as it is and two rules the budget is spent: there is no search, but a result."""
    rules = Times("half", 0.5, brings=Parameter("TILE", [2, 4], 2)), Times("third", 0.3)
    criteria = replace(ENDLESS, budget=Budget(trials=4))
    outcome = run(tmp_path, START, RuleProposer(Machine(cores=2), rules), Scripted(), criteria)
    (turn,) = outcome.turns
    assert (tried(turn), turn.strategy) == ({"half": 2.0, "third": 3.33}, "third")
    assert outcome.best.latency_ms == pytest.approx(6.0)
    assert outcome.stopped == "budget of 4 trials used up"


def wide(bound: Kernel, call: int) -> float:
    """WIDE and WIDER say by how much a kernel is faster, which no kernel is at their defaults."""
    result: float = bound.constants["RESULT"] / bound.constants.get("WIDE", 1) / bound.constants.get("WIDER", 1)
    return result


@pytest.mark.parametrize(("helps", "best_ms"), [(True, 20 * 0.5 / 4 / 3), (False, 20 / 4 / 3)])
def test_what_brings_choices_comes_along(tmp_path: Path, helps: bool, best_ms: float) -> None:
    """As they stand, such rules gain nothing: they are searched with what helped, or together where nothing did."""
    bring = (
        Times("wide", 1.0, brings=Parameter("WIDE", [1, 4], 1)),
        Times("wider", 1.0, brings=Parameter("WIDER", [1, 3], 1)),
    )
    rules = (*bring, Times("half", 0.5)) if helps else bring
    proposer = RuleProposer(Machine(cores=2), rules)
    outcome = run(tmp_path, START, proposer, Scripted(change=wide), replace(ENDLESS, max_iterations=1))
    (turn,) = outcome.turns
    assert {*turn.strategy.split(" + ")} == {"wide", "wider", *(["half"] if helps else [])}
    assert outcome.best.latency_ms == pytest.approx(best_ms)


def test_a_rule_that_leads_back_leads_nowhere(tmp_path: Path) -> None:
    class Back(Times):
        def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten:
            if kernel == start:
                raise NotApplicableError("it is the start")
            return Rewritten(start, "done")

    start = formatted(kernel(20.0))
    outcome = optimized(tmp_path, Times("half", 0.5), Back("back", 1.0), start=start)
    assert strategies(outcome) == ["1.0 half", f"2.0 {RULES}"]
    assert tried(outcome.turns[1]) == {"back": 0.5}
    assert outcome.best.latency_ms == 10.0


def test_a_search_takes_the_parameters_of_the_rules_that_made_the_kernel(tmp_path: Path) -> None:
    """Constraints of a rule that is not in a kernel are none of its own: its names are unknown there."""
    tiled = Times("padded", 0.5, brings=Parameter("TILE", [2, 4, 6], 2), constraints=("TILE != 6",))
    lanes = Times("lanes", 0.49, brings=Parameter("WIDTH", [3, 5], 3), constraints=("WIDTH > 2",))
    outcome = optimized(tmp_path, tiled, lanes, iterations=1)
    spaces = {
        attempt.proposal.strategy: attempt.proposal.space
        for attempt in outcome.turns[0].attempts
        if attempt.proposal and attempt.proposal.space
    }
    named = {"padded": {"TILE"}, "lanes": {"WIDTH"}, "lanes + padded": {"TILE", "WIDTH"}}
    constraint = {"TILE": "TILE != 6", "WIDTH": "WIDTH > 2"}
    assert {name: set(space.names) for name, space in spaces.items()} == named
    for space in spaces.values():
        assert {str(text) for text in space.constraints} == {constraint[name] for name in space.names}


def test_what_never_helped_on_this_kind_comes_last(tmp_path: Path) -> None:
    """After the search; unless it helped in this run."""
    gains = {"tilelang_cpu streams": {"vain": NEVER_HELPED, "good": 2.0}, "triton streams": {"other": NEVER_HELPED}}
    rules = Times("vain", 0.9), Times("other", 1.1), Times("good", 1.2)
    start = kernel(20.0, BLOCK=64)
    proposer = RuleProposer(Machine(cores=2), rules, prior_of(gains))
    outcome = run(tmp_path, start, proposer, Scripted(), replace(ENDLESS, min_improvement=0.0))
    assert [list(tried(turn)) for turn in outcome.turns] == [["good", "other"], [], ["vain"], ["good", "other"]]
    assert [turn.strategy for turn in outcome.turns[1:3]] == [TUNE, "vain"]


@pytest.mark.failing_rules
def test_what_gained_before_is_where_the_first_turn_begins(tmp_path: Path) -> None:
    """In sequence, the most promising first; its beginnings, and the whole with each of the others."""
    gains = {
        "tilelang_cpu streams": {"half": 1.5, "third": 3.0, "vain": NEVER_HELPED, "other": 1.05, "broken": 4.0},
    }
    rules = (
        *(Times("half", 0.5), Times("new", 0.9), Times("other", 0.8), Times("vain", 0.7), Times("third", 0.3)),
        Times("broken", 0.1, broken=True),
    )
    proposer = RuleProposer(Machine(cores=2), rules, prior_of(gains))
    first, *others = run(tmp_path, START, proposer, Scripted(), replace(ENDLESS, min_improvement=0.0)).turns
    whole = "third + half"
    assert list(tried(first)) == [whole, "third", f"{whole} + new", f"{whole} + other", f"{whole} + other + new"]
    assert (first.strategy, first.improved) == (f"{whole} + other + new", True)
    assert [list(tried(turn)) for turn in others] == [["vain"]]


def test_rules_for_the_bottleneck_come_first(tmp_path: Path) -> None:
    """The work is streams, and the algorithm is what bounds it."""
    rules = (
        Times("products", 0.9, work="products"),
        Times("memory", 0.9, category="memory"),
        Times("first", 0.9, category="parallelism"),
    )
    outcome = optimized(tmp_path, *rules, iterations=1)
    ranking = [str(category) for category in outcome.turns[0].analysis.ranking]
    expected = sorted(["memory", "first"], key=lambda name: ranking.index(name.replace("first", "parallelism")))
    assert list(tried(outcome.turns[0]))[:3] == [*expected, "products"]


@pytest.mark.parametrize("after", range(1, 14, 2))
def test_a_batch_that_was_cut_off_goes_on(tmp_path: Path, after: int) -> None:
    """The same turns, and nothing measured twice."""
    rules = Times("half", 0.5, brings=Parameter("TILE", [2, 4, 6], 2)), Times("worse", 2.0), Times("third", 0.3)
    start = kernel(20.0, BLOCK=64)

    def optimize(folder: str, *evaluators: Scripted) -> Outcome:
        full, quick = evaluators
        proposer = RuleProposer(Machine(cores=2), rules)
        return run(tmp_path / folder, start, proposer, full, replace(ENDLESS, max_iterations=3), searcher=quick)

    whole, quick = Scripted(), Scripted()
    expected = optimize("whole", whole, quick)
    first, second, full = Scripted(after=after), Scripted(), [Scripted(), Scripted()]
    with pytest.raises(KeyboardInterrupt):
        optimize("cut", full[0], first)
    resumed = optimize("cut", full[1], second)
    assert [turn.record() for turn in resumed.turns] == [turn.record() for turn in expected.turns]
    assert sorted(full[0].calls + full[1].calls) == sorted(whole.calls)
    assert sorted(first.calls + second.calls) == sorted(quick.calls)


def test_a_size_of_the_problem_is_not_searched(tmp_path: Path) -> None:
    """What `tune` leaves alone, `optimize` does not search: HIDDEN = 1024 is not a choice of the kernel."""
    start = kernel(64.0, HIDDEN=1024, BLOCK=64)
    outcome = optimized(tmp_path, start=start, iterations=1)
    proposal = outcome.turns[0].proposal
    assert proposal is not None and proposal.space is not None
    assert proposal.space.names == ("BLOCK",)
    found = space_of(start, {}, []).space
    assert proposal.space.parameters == found.parameters
    assert joint_space(kernel(64.0, HIDDEN=1024), [], {}) is None


def test_a_declaration_is_all_that_is_searched_until_a_rule_brings_more() -> None:
    source = "BLOCK = 8\nTILE = 4\nSEARCH_SPACE = {'BLOCK': [4, 8]}\nCONSTRAINTS = ['BLOCK < M']"
    space = joint_space(PythonKernel(TILELANG, Target.CPU, source), [], {"M": 8})
    assert space is not None
    assert list(space) == [{"BLOCK": 4}]


def test_what_a_later_rule_takes_out_is_in_no_constraint() -> None:
    fused = from_inductor("2_54")
    spaces = []
    for name in ("wide-streams", "fuse-neighbour"):
        rewritten = BY_NAME[name].apply(fused, MACHINE)
        fused = rewritten.kernel
        spaces += [rewritten.space] if rewritten.space else []
    space = joint_space(fused, spaces, {})
    assert space is not None
    assert not any("XBLOCK_1" in constraint for constraint in space.constraints)
