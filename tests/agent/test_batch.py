"""Several changes in one turn: measured quickly, combined, and the best evaluated in full."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kernelwright.agent.proposer import Rewrites
from kernelwright.core import Kernel, Proposal

from ..fakes import kernel
from .made_up import ENDLESS, Planned, Scripted, run, trials


def changes(together: float, **results: float | str) -> Rewrites:
    """Changes with results, and that of all of them together."""

    def proposal(strategy: str, kernel: Kernel) -> Proposal:
        return Proposal(kernel, strategy, "compute", "because")

    def combine(strategies: Sequence[str]) -> Proposal | None:
        return proposal(" + ".join(strategies), kernel(together, TOGETHER=len(strategies)))

    return Rewrites(tuple(proposal(name, kernel(result)) for name, result in results.items()), combine)


class Batches(Planned):
    """Proposes these changes in the first turn, and nothing later."""

    def __init__(self, rewrites: Rewrites) -> None:
        super().__init__({})
        self._left = [rewrites]

    def propose(self, *_: object) -> Rewrites | None:  # type: ignore[override]
        return self._left.pop() if self._left else None


def test_what_helped_is_tried_together(tmp_path: Path) -> None:
    outcome = run(tmp_path, kernel(20.0), Batches(changes(2.0, fast=8.0, faster=4.0, wrong="wrong_value")))
    assert outcome.best.latency_ms == 2.0
    (turn,) = outcome.turns
    strategies = {attempt.proposal.strategy for attempt in turn.attempts if attempt.proposal is not None}
    assert {"fast", "faster", "wrong", "faster + fast"} <= strategies


def test_the_best_alone_wins_where_nothing_together_is_faster(tmp_path: Path) -> None:
    outcome = run(tmp_path, kernel(20.0), Batches(changes(6.0, fast=8.0, faster=4.0)))
    assert outcome.best.latency_ms == 4.0


def test_the_best_stays_the_best_where_the_time_ends_before_it_is_measured_again(tmp_path: Path) -> None:
    """The start, the kernel as it is and both changes are four trials; the fifth begins the second screening."""
    evaluator = Scripted()
    outcome = run(tmp_path, kernel(20.0), Batches(changes(2.0, fast=8.0, faster=4.0)), evaluator, criteria=trials(5))
    assert outcome.cut_short and outcome.best.latency_ms == 4.0


def test_nothing_is_combined_when_the_time_is_over(tmp_path: Path) -> None:
    """The fourth trial is the second change; rewriting would only make the run end later."""
    rewrites = changes(2.0, fast=8.0, faster=4.0)
    asked: list[Sequence[str]] = []

    def combine(strategies: Sequence[str]) -> Proposal | None:
        asked.append(strategies)
        return rewrites.combine(strategies)

    outcome = run(tmp_path, kernel(20.0), Batches(Rewrites(rewrites.proposals, combine)), criteria=trials(4))
    assert asked == [] and outcome.cut_short and outcome.best.latency_ms == 4.0


def test_nothing_that_helps_leaves_the_start(tmp_path: Path) -> None:
    outcome = run(tmp_path, kernel(20.0), Batches(changes(30.0, slow=40.0, slower=50.0)), criteria=ENDLESS)
    assert outcome.best.latency_ms == 20.0
