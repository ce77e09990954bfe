"""The worker that is started before its kernel is known; on a CPU, where evaluators have none, it is started here."""

from __future__ import annotations

import pytest
from kernelwright.core import Config, Kernel, TorchProblem
from kernelwright.evaluators.candidate.client import CandidateClient
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.pipeline.spare import SpareWorker
from kernelwright.evaluators.workers.client import Worker


@pytest.fixture
def spare(evaluator: LocalEvaluator, scale_problem: TorchProblem) -> SpareWorker:
    found = evaluator.processes.spare
    found.start(scale_problem, evaluator.processes.candidate(scale_problem))
    return found


def test_the_next_kernel_is_evaluated_in_it_and_another_is_started(
    evaluator: LocalEvaluator,
    spare: SpareWorker,
    scale_problem: TorchProblem,
    scale_kernel: Kernel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting, used = worker_of(spare), []
    check = CandidateClient.check
    monkeypatch.setattr(
        CandidateClient, "check", lambda self, *args, **kw: (used.append(self.worker), check(self, *args, **kw))[1]
    )
    new_worker = evaluator.processes._new_candidate(scale_problem)
    monkeypatch.setattr(evaluator.processes, "start_spare", lambda problem: spare.start(problem, new_worker))
    (found,) = evaluator.evaluate(scale_problem, scale_kernel, [Config()])
    assert found.ok, found.message
    assert used == [waiting] and not waiting.alive
    assert worker_of(spare).alive
    spare.discard()


def test_there_is_one_at_most_and_it_is_for_one_problem(
    evaluator: LocalEvaluator, spare: SpareWorker, scale_problem: TorchProblem
) -> None:
    first = worker_of(spare)
    spare.start(scale_problem, evaluator.processes.candidate(scale_problem))
    assert worker_of(spare) is first
    other = scale_problem.at("rows=2")
    assert spare.take(other) is None
    spare.start(other, evaluator.processes.candidate(other))
    assert not first.alive and worker_of(spare) is not first
    spare.most = 2
    spare.start(scale_problem, evaluator.processes.candidate(scale_problem))
    taken = [spare.take(problem) for problem in (other, scale_problem, other)]
    assert [one is not None and one.alive for one in taken] == [True, True, False]
    for one in taken[:2]:
        assert one is not None
        one.discard()


def test_one_that_has_died_is_not_used(spare: SpareWorker, scale_problem: TorchProblem) -> None:
    spare.wait()
    worker_of(spare).end()
    assert spare.take(scale_problem) is None


def worker_of(spare: SpareWorker) -> Worker:
    """The only one's."""
    (one,) = spare._spares
    return one.worker
