"""One turn: its repairs, what its tools evaluated, and how it ends when the run does."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelwright.agent.bottleneck import Category
from kernelwright.agent.proposer import NoKernelError, RunEndedError, TurnContext
from kernelwright.agent.stopping import StoppingCriteria
from kernelwright.agent.turn import diff
from kernelwright.core import Config, Journal, Kernel, ToolCall, TurnRecord
from kernelwright.core.events import ProposalFailed

from ..fakes import kernel
from .made_up import Heard, Planned, Scripted, listed, run


def test_a_failing_proposal_is_repaired(tmp_path: Path) -> None:
    heard = Heard()
    proposer = Planned(
        {"1.0": [kernel("compile_error"), NoKernelError("a reply without code"), kernel(5.0), kernel(1.0)]}
    )
    outcome = run(tmp_path, kernel(20.0), proposer, emit=heard.append)
    (turn,) = outcome.turns
    assert [attempt.error for attempt in turn.attempts] == ["compile_error: as told", "a reply without code", ""]
    assert proposer.failed["1.0"] == ["compile_error: as told", "a reply without code"]
    assert (turn.improved, turn.error, turn.strategy) == (True, "", "step-1.0")
    record = turn.record().attempts
    assert [attempt.strategy for attempt in record] == ["step-1.0", "no-kernel", "step-1.0"]
    assert [attempt.statuses for attempt in record] == [("compile_error",), (), ("ok",)]
    assert [attempt.kernel is None for attempt in record] == [False, True, False]
    assert heard.of(ProposalFailed) == [
        ProposalFailed("1.0", "compile_error: as told"),
        ProposalFailed("1.0", "a reply without code"),
    ]
    assert outcome.best.latency_ms == 5.0


@pytest.mark.parametrize("repairs", [0, 1, 2])
def test_a_turn_ends_when_its_repairs_are_used_up(tmp_path: Path, repairs: int) -> None:
    steps = [kernel("timeout"), NoKernelError("nothing"), kernel("wrong_value"), kernel(1.0)]
    criteria = StoppingCriteria(target_speedup=1e9, repairs=repairs)
    outcome = run(tmp_path, kernel(20.0), Planned({"1.0": steps, "2.0": [kernel(5.0)]}), criteria=criteria)
    failed, right = outcome.turns
    assert len(failed.attempts) == 1 + repairs
    assert (failed.found, failed.improved, failed.gain) == (None, False, 1.0)
    assert failed.error == ["timeout: as told", "nothing", "wrong_value: as told"][repairs]
    assert right.number == 2
    assert outcome.best.latency_ms == 5.0


def test_turns_without_any_kernel_count_as_rounds(tmp_path: Path) -> None:
    steps = {f"{number}.0": [NoKernelError("no code")] for number in range(1, 9)}
    outcome = run(tmp_path, kernel(20.0), Planned(steps))
    assert "3 turns in a row" in outcome.stopped
    assert [turn.strategy for turn in outcome.turns] == ["no-kernel"] * 3
    assert outcome.turns[0].record().kernel is None


def by_a_tool(tried: Kernel, submitted: Kernel | Exception) -> Planned:
    """A model that has a tool evaluate one kernel, and submits another."""

    def step(context: TurnContext) -> Kernel:
        context.lane.evaluate(tried, Config(), "evaluate")
        if isinstance(submitted, Exception):
            raise submitted
        return submitted

    return Planned({"1.0": [step]})


def test_the_fastest_kernel_counts_that_a_tool_evaluated(tmp_path: Path) -> None:
    outcome = run(tmp_path, kernel(20.0), by_a_tool(kernel(4.0), submitted=kernel(8.0)))
    assert outcome.best.latency_ms == 4.0
    assert outcome.turns[0].found is not None
    assert outcome.turns[0].found.kernel == kernel(4.0)
    assert outcome.turns[0].kernel == kernel(4.0)


def test_a_tool_that_only_looks_at_the_given_kernel_finds_nothing(tmp_path: Path) -> None:
    """Of what was known and what is new, the new one is what the turn has found, though it is slower."""
    outcome = run(tmp_path, kernel(20.0), by_a_tool(kernel(20.0), submitted=kernel(30.0)))
    (turn,) = outcome.turns
    assert turn.found is not None
    assert (turn.found.latency_ms, turn.improved) == (30.0, False)


def test_of_two_kernels_the_one_counts_that_nobody_disturbed(tmp_path: Path) -> None:
    class Disturbed(Scripted):
        def _result(self, bound: Kernel, number: int) -> float | str:
            self._contention = 0.9 if bound == kernel(4.0) else None
            return super()._result(bound, number)

    outcome = run(tmp_path, kernel(20.0), by_a_tool(kernel(4.0), submitted=kernel(5.0)), Disturbed())
    assert outcome.best.latency_ms == 5.0


def test_a_run_that_ends_after_a_tool_was_used_keeps_the_call(tmp_path: Path) -> None:
    call = ToolCall(name="search_examples", arguments={"query": "softmax"}, result="nothing fits", ok=True, seconds=0.1)

    def step(context: TurnContext) -> Kernel:
        context.lane.tool_calls.append(call)
        raise RunEndedError("the model failed")

    outcome = run(tmp_path, kernel(20.0), listed(step))
    assert [(turn.tool_calls, turn.found) for turn in outcome.turns] == [((call,), None)]


@pytest.mark.parametrize(("first", "then"), [(0.5, Category.COMPUTE), (0.9, Category.PARALLELISM)])
def test_a_category_whose_turn_did_not_help_counts_less_in_the_next(
    tmp_path: Path, first: float, then: Category
) -> None:
    proposer = listed(kernel(first), kernel(0.8))
    run(tmp_path, kernel(0.6), proposer)
    analyses = [proposer.contexts[lane].analysis.category for lane in ("1.0", "2.0")]
    assert analyses == [Category.COMPUTE, then]


@pytest.mark.parametrize("repaired", [False, True])
def test_what_was_found_before_the_run_ended_is_kept_and_verified(tmp_path: Path, repaired: bool) -> None:
    evaluator = Scripted()
    proposer = by_a_tool(kernel(4.0), RunEndedError("budget of 100 tokens used up"))
    if repaired:
        proposer.plan = {"1.0": [kernel("timeout"), *proposer.plan["1.0"]]}
    outcome = run(tmp_path, kernel(20.0), proposer, evaluator)
    assert outcome.stopped == "budget of 100 tokens used up"
    assert outcome.cut_short
    (turn,) = outcome.turns
    assert [attempt.error for attempt in turn.attempts] == (["timeout: as told"] if repaired else [])
    assert turn.improved
    assert outcome.best.latency_ms == 4.0
    assert outcome.verified
    assert evaluator.calls.count(kernel(4.0).source) == 2
    with Journal(tmp_path / "journal.jsonl") as journal:
        assert [recorded.metrics and recorded.metrics.latency_ms for recorded in journal.of(TurnRecord)] == [4.0]


def test_a_run_that_ends_before_anything_was_tried_leaves_no_turn(tmp_path: Path) -> None:
    outcome = run(tmp_path, kernel(20.0), listed(RunEndedError("the model failed")))
    assert (outcome.stopped, outcome.turns, outcome.verified) == ("the model failed", (), True)


def test_a_form_feed_does_not_split_a_line_of_the_diff() -> None:
    assert diff("A = 1\n\fB = 2\n", "A = 1\n\fB = 3\n").split("\n")[3:] == [" A = 1", "-\fB = 2", "+\fB = 3"]
