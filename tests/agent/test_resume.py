"""A run that was cut off goes on where it was: the same turns, and nothing measured twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from kernelwright.agent.loop import Outcome
from kernelwright.agent.proposer import RunEndedError, TurnContext
from kernelwright.agent.searches import WantedSearch
from kernelwright.agent.stopping import StoppingCriteria
from kernelwright.core import Config, Journal, Kernel, Proposal, ReplyPendingError, SearchSpace, TurnRecord

from ..fakes import kernel
from .made_up import ENDLESS, Planned, Scripted, listed, run

TUNED = kernel(20.0, SPEED=20)
SPACE = SearchSpace.of({"SPEED": [20, 16, 12, 8]}, SPEED=20)
SEARCHING = Proposal(TUNED, "tune", "compute", "because", SPACE)
WIDE = StoppingCriteria(target_speedup=1e9, max_iterations=3, beam=3)


def records(outcome: Outcome) -> list[TurnRecord]:
    return [turn.record() for turn in outcome.turns]


def turns_written(folder: Path) -> list[tuple[int, int]]:
    with Journal(folder / "journal.jsonl") as journal:
        return [(record.number, record.lane) for record in journal.of(TurnRecord)]


@pytest.mark.parametrize("after", range(1, 7))
def test_resume_goes_on_without_measuring_anything_twice(tmp_path: Path, after: int) -> None:
    proposals = [kernel(18.0), SEARCHING, kernel("timeout"), kernel(3.0)]
    whole = Scripted()
    expected = run(tmp_path / "whole", kernel(20.0), listed(*proposals), whole)
    first, second = Scripted(after=after), Scripted()
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", kernel(20.0), listed(*proposals), first)
    resumed = run(tmp_path / "cut", kernel(20.0), listed(*proposals), second)
    assert first.calls + second.calls == whole.calls
    assert first.profiles + second.profiles == 1
    assert resumed.best == expected.best
    assert records(resumed) == records(expected)
    assert len(turns_written(tmp_path / "cut")) == len(expected.turns)


def tuning(context: TurnContext) -> Kernel:
    """A model that has a space searched, and submits what was found."""
    found = context.lane.tune(WantedSearch(TUNED, SPACE, "grid", 4))
    assert found.best is not None
    return TUNED.bind(found.best.config)


def wide() -> Planned:
    """Lanes that repair, climb the same space and search it, and meet at the same texts."""
    return Planned(
        {
            "1.0": [kernel("compile_error"), kernel(18.0)],
            "1.1": [SEARCHING],
            "1.2": [Proposal(TUNED, "tune-too", "compute", "because", SPACE)],
            "2.0": [tuning],
            "2.1": [kernel(12.0, SPEED=12)],
            "2.2": [tuning],
            "3.0": [kernel("wrong_value"), kernel("crashed"), kernel("timeout")],
            "3.1": [kernel(20.0, SPEED=8)],
            "3.2": [kernel(6.5)],
        }
    )


@pytest.mark.parametrize("evaluators", [1, 3])
@pytest.mark.parametrize("after", range(1, 20, 3))
def test_resume_of_a_beam_takes_the_same_turns(tmp_path: Path, after: int, evaluators: int) -> None:
    whole, searcher = Scripted(), Scripted()
    expected = run(tmp_path / "whole", kernel(20.0), wide(), [whole] * evaluators, WIDE, searcher=searcher)
    assert len(expected.turns) == 9
    assert len(whole.calls) == len({*whole.calls}) + 2, "only the winner and the start are measured twice"
    first, second = Scripted(after=after), Scripted()
    searched = [Scripted(), Scripted()]
    interrupted = after < len(whole.calls)
    try:
        run(tmp_path / "cut", kernel(20.0), wide(), [first] * evaluators, WIDE, searcher=searched[0])
        assert not interrupted
    except KeyboardInterrupt:
        assert interrupted
    resumed = run(tmp_path / "cut", kernel(20.0), wide(), [second] * evaluators, WIDE, searcher=searched[1])
    # What is timed interleaved is repeated together.
    repeated = Counter(first.calls + second.calls) - Counter(whole.calls)
    assert repeated <= Counter([kernel(20.0).source]) and {*whole.calls} == {*first.calls, *second.calls}
    assert sorted(searched[0].calls + searched[1].calls) == sorted(searcher.calls)
    assert resumed.best == expected.best
    assert records(resumed) == records(expected)
    assert set(turns_written(tmp_path / "cut")) == {(i, lane) for i in (1, 2, 3) for lane in (0, 1, 2)}


@pytest.mark.parametrize("after", range(1, 10))
def test_a_search_that_was_cut_off_goes_on(tmp_path: Path, after: int) -> None:
    """Four configs, then the kernel as it stands against its finalist."""
    whole = Scripted()
    expected = run(tmp_path / "whole", kernel(20.0), listed(tuning), searcher=whole)
    assert expected.best.latency_ms == 8.0
    first, second, evaluator = Scripted(after=after), Scripted(), Scripted()
    interrupted = after < len(whole.calls)
    try:
        run(tmp_path / "cut", kernel(20.0), listed(tuning), searcher=first)
        assert not interrupted
    except KeyboardInterrupt:
        assert interrupted
    resumed = run(tmp_path / "cut", kernel(20.0), listed(tuning), evaluator, searcher=second)
    compared = 2 if after == 5 else 1  # finalists are timed interleaved, so both are repeated
    assert len(first.calls + second.calls) == len(whole.calls) + compared - 1
    assert evaluator.calls.count(kernel(20.0).source) == interrupted, "beside the winner alone"
    assert records(resumed) == records(expected)
    assert resumed.best == expected.best


def test_lanes_that_wait_leave_the_others_their_turns(tmp_path: Path) -> None:
    def plan(*replies: Kernel | ReplyPendingError) -> Planned:
        first, last = replies
        return Planned({"1.0": [first], "1.1": [kernel(5.0)], "1.2": [last]})

    criteria = StoppingCriteria(target_speedup=1e9, max_iterations=1, beam=3)
    evaluators = [Scripted(), Scripted(), Scripted()]
    waiting = ReplyPendingError("0001.prompt.md has no reply yet"), ReplyPendingError("0003.prompt.md has no reply yet")
    with pytest.raises(ReplyPendingError, match=r"0001.prompt.md has no reply yet; 0003.prompt.md has no reply yet"):
        run(tmp_path, kernel(20.0), plan(*waiting), evaluators[0], criteria)
    assert turns_written(tmp_path) == [(1, 1)]
    with pytest.raises(ReplyPendingError, match=r"^0003.prompt.md has no reply yet$"):
        run(tmp_path, kernel(20.0), plan(kernel(7.0), waiting[1]), evaluators[1], criteria)
    outcome = run(tmp_path, kernel(20.0), plan(kernel(7.0), kernel(4.0)), evaluators[2], criteria)
    measured = [[float(source.removeprefix("RESULT = ")) for source in evaluator.calls] for evaluator in evaluators]
    assert measured == [[20.0, 5.0], [7.0], [4.0, 20.0, 4.0]]
    # The lane that did not wait is written again: its kernel is no longer the best of the iteration.
    assert sorted(turns_written(tmp_path)) == [(1, 0), (1, 1), (1, 1), (1, 2)]
    assert [turn.lane for turn in outcome.turns] == [0, 1, 2]
    assert [turn.improved for turn in outcome.turns] == [False, False, True]


def test_a_run_that_ended_goes_on_with_what_it_had_found(tmp_path: Path) -> None:
    def ends(context: TurnContext) -> Kernel:
        context.lane.evaluate(kernel(9.0), Config(), "evaluate")
        raise RunEndedError("budget of 10 tokens used up")

    def goes_on(context: TurnContext) -> Kernel:
        context.lane.evaluate(kernel(9.0), Config(), "evaluate")
        return kernel(6.0)

    run(tmp_path, kernel(20.0), listed(ends), criteria=ENDLESS)
    evaluator = Scripted()
    outcome = run(tmp_path, kernel(20.0), listed(goes_on), evaluator)
    assert evaluator.calls == [kernel(6.0).source, kernel(20.0).source, kernel(6.0).source]
    assert outcome.best.latency_ms == 6.0
