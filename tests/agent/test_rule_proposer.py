"""Which rule is tried next, on which candidate of a beam, and when nothing is left; with rules that are made up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from kernelwright.agent.loop import Outcome
from kernelwright.agent.rule_proposer import TUNE, RuleProposer, formatted, joint_space
from kernelwright.agent.rules.rule import Machine, Rewritten
from kernelwright.agent.stopping import StoppingCriteria
from kernelwright.core import Kernel, Parameter, PythonKernel, Target
from kernelwright.core.languages import TILELANG
from kernelwright.tuners.discovery import space_of

from ..fakes import kernel
from .made_up import Scripted, run

START = kernel(20.0)


@dataclass(frozen=True)
class Times:
    """Makes a kernel so many times slower, once; `brings` is a parameter that comes with it."""

    name: str
    factor: float
    work: str = "both"
    category: str = "compute"
    why: str = "it is made up"
    brings: Parameter | None = None
    constraints: tuple[str, ...] = ()
    broken: bool = False

    @property
    def constant(self) -> str:
        return self.name.upper()

    def apply(self, kernel: Kernel, machine: Machine) -> Rewritten | None:
        if self.broken:
            raise AssertionError("a form that the rule did not foresee")
        if self.constant in kernel.constants:
            return None
        after = kernel.bind({"RESULT": kernel.constants["RESULT"] * self.factor})
        lines = [after.source.rstrip("\n"), f"{self.constant} = 1"]
        if self.brings is not None:
            lines.append(f"{self.brings.name} = {self.brings.default}")
        after = replace(after, source="\n".join(lines))
        return Rewritten(after, "done", (self.brings,) if self.brings else (), self.constraints)


def optimized(folder: Path, *rules: Times, beam: int = 1, iterations: int = 9, start: Kernel = START) -> Outcome:
    criteria = StoppingCriteria(target_speedup=1e9, max_iterations=iterations, min_improvement=0.0, beam=beam)
    return run(folder, start, RuleProposer(Machine(cores=2), rules), Scripted(), criteria)


def strategies(outcome: Outcome) -> list[str]:
    return [f"{turn.number}.{turn.lane} {turn.strategy}" for turn in outcome.turns]


def test_one_rule_per_turn_until_nothing_is_left(tmp_path: Path) -> None:
    outcome = optimized(tmp_path, Times("half", 0.5), Times("worse", 2.0), Times("third", 0.3))
    assert strategies(outcome) == ["1.0 half", "2.0 worse", "3.0 third"]
    assert [turn.improved for turn in outcome.turns] == [True, False, True]
    assert outcome.stopped == "nothing left to try"
    assert outcome.best.latency_ms == pytest.approx(3.0)


def test_what_a_rule_got_wrong_is_not_repaired(tmp_path: Path) -> None:
    def wrong(bound: Kernel, call: int) -> str | None:
        return "wrong_value" if "HALF" in bound.constants else None

    rules = Times("half", 0.5), Times("third", 0.3)
    outcome = run(tmp_path, START, RuleProposer(Machine(cores=2), rules), Scripted(change=wrong))
    assert strategies(outcome) == ["1.0 half", "2.0 third"]
    assert [len(turn.attempts) for turn in outcome.turns] == [1, 1]


def test_no_rules_and_no_sizes_leave_nothing_to_try(tmp_path: Path) -> None:
    outcome = optimized(tmp_path)
    assert (outcome.stopped, outcome.turns) == ("nothing left to try", ())


def test_a_rule_that_meets_what_it_does_not_foresee_is_passed_over(tmp_path: Path) -> None:
    assert strategies(optimized(tmp_path, Times("broken", 0.5, broken=True), Times("half", 0.5))) == ["1.0 half"]


def test_further_expansions_take_the_rules_after_the_first(tmp_path: Path) -> None:
    rules = Times("half", 0.5), Times("third", 0.3), Times("tenth", 0.1), Times("worse", 2.0)
    outcome = optimized(tmp_path, *rules, beam=3, iterations=1)
    assert strategies(outcome) == ["1.0 half", "1.1 third", "1.2 tenth"]
    assert outcome.best.latency_ms == pytest.approx(2.0)


def test_fewer_ideas_than_lanes_leave_lanes_empty(tmp_path: Path) -> None:
    outcome = optimized(tmp_path, Times("half", 0.5), beam=4, iterations=1)
    assert strategies(outcome) == ["1.0 half"]


def test_a_rule_that_helped_one_candidate_is_tried_on_the_others(tmp_path: Path) -> None:
    """'half' and 'third' help side by side; the best of them gets the other one too."""
    outcome = optimized(tmp_path, Times("half", 0.5), Times("third", 0.3), beam=2)
    assert strategies(outcome)[:4] == ["1.0 half", "1.1 third", "2.0 half", "2.1 third"]
    assert [turn.before.latency_ms for turn in outcome.turns[2:4]] == [6.0, 10.0]
    assert outcome.best.latency_ms == pytest.approx(3.0)
    assert outcome.stopped == "nothing left to try"


def test_no_rule_is_tried_twice_on_the_same_candidate(tmp_path: Path) -> None:
    """The start kernel stays in the beam."""
    outcome = optimized(tmp_path, Times("half", 0.5), Times("third", 0.3), Times("fifth", 0.2), beam=9)
    tried = [(turn.strategy, turn.before.kernel.digest) for turn in outcome.turns]
    assert len(tried) == len(set(tried))
    assert outcome.best.latency_ms == pytest.approx(20 * 0.5 * 0.3 * 0.2)
    assert outcome.stopped == "nothing left to try"


def test_parameters_are_searched_once_per_kernel(tmp_path: Path) -> None:
    start = kernel(20.0, BLOCK=64)
    outcome = optimized(tmp_path, Times("half", 0.5, work="products"), start=start)
    # The work is streams: a rule for products comes after the search; what it made better is searched again.
    assert strategies(outcome) == [f"1.0 {TUNE}", "2.0 half", f"3.0 {TUNE}"]
    assert outcome.stopped == "nothing left to try"


def test_a_search_that_helped_goes_on_from_where_it_came_to(tmp_path: Path) -> None:
    outcome = optimized(tmp_path, start=kernel(64.0, SPEED=64, SEARCH_SPACE={"SPEED": [16, 32, 64]}), iterations=2)
    first, second = outcome.turns
    assert [turn.strategy for turn in outcome.turns] == [TUNE, TUNE]
    assert first.improved
    assert first.found == second.before


def test_a_rule_that_leads_back_leads_nowhere(tmp_path: Path) -> None:
    class Back(Times):
        def apply(self, kernel: Kernel, machine: Machine) -> Rewritten | None:
            return None if kernel == start else Rewritten(start, "done")

    start = formatted(kernel(20.0, BLOCK=64))
    outcome = optimized(tmp_path, Times("half", 0.5), Back("back", 1.0), start=start)
    assert strategies(outcome) == ["1.0 half", "2.0 back", f"3.0 {TUNE}"]
    assert outcome.turns[1].found is not None
    assert outcome.turns[1].found.kernel == start
    assert outcome.best.latency_ms == 10.0


def test_each_candidate_is_searched_once(tmp_path: Path) -> None:
    start = kernel(20.0, BLOCK=64)
    outcome = optimized(tmp_path, Times("half", 0.5), beam=3, start=start)
    searched = [turn.before.kernel.digest for turn in outcome.turns if turn.strategy == TUNE]
    assert len(searched) == len(set(searched)) == 2
    assert outcome.stopped == "nothing left to try"


def test_a_search_takes_the_parameters_of_the_rules_that_made_the_kernel(tmp_path: Path) -> None:
    """Constraints of a rule that is in another candidate are none of this one's: its names are unknown here."""
    tiled = Times("padded", 0.5, brings=Parameter("TILE", [2, 4, 6], 2), constraints=("TILE != 6",))
    lanes = Times("lanes", 0.4, brings=Parameter("WIDTH", [3, 5], 3), constraints=("WIDTH > 2",))
    outcome = optimized(tmp_path, tiled, lanes, beam=8, iterations=6)
    spaces = {
        frozenset(turn.before.kernel.constants) & {"TILE", "WIDTH"}: turn.proposal.space
        for turn in outcome.turns
        if turn.strategy == TUNE and turn.proposal and turn.proposal.space
    }
    assert set(spaces) == {frozenset({"TILE"}), frozenset({"WIDTH"}), frozenset({"TILE", "WIDTH"})}
    constraint = {"TILE": "TILE != 6", "WIDTH": "WIDTH > 2"}
    for names, space in spaces.items():
        assert set(space.names) == names
        assert {str(one) for one in space.constraints} == {constraint[name] for name in names}


def test_a_size_of_the_problem_is_not_searched(tmp_path: Path) -> None:
    """What `tune` leaves alone, `optimize` does not search: HIDDEN = 1024 is no choice of the kernel."""
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
