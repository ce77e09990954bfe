"""The reference workers that are kept: at other sizes of a problem the same one goes on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from kernelwright.core import Config, Kernel, ProblemError, TorchProblem
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.reference.client import ReferenceClient

from ...conftest import FAST


@pytest.fixture
def fresh() -> Iterator[LocalEvaluator]:
    with LocalEvaluator(settings=FAST) as evaluator:
        yield evaluator


def test_a_worker_goes_on_at_other_sizes(
    fresh: LocalEvaluator, scale_problem: TorchProblem, scale_kernel: Kernel
) -> None:
    first = fresh.processes.reference_client(scale_problem)
    pid, many = first.pid, first.counted["min_bytes"]
    tiny = scale_problem.at("tiny")
    (found,) = fresh.evaluate(tiny, scale_kernel, [Config()])
    assert found.ok, found.message
    second = fresh.processes.reference_client(tiny)
    assert (second.pid, second.alive, first.alive) == (pid, True, False)
    assert second.counted["min_bytes"] < many
    with pytest.raises(ProblemError, match="serves other sizes now"):
        first.call("properties")
    first.close()
    assert second.alive, "the worker is no longer the first one's"
    (found,) = fresh.evaluate(scale_problem, scale_kernel, [Config()])
    assert found.ok and fresh.processes.reference_client(scale_problem).pid == pid


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_cores_that_a_candidate_took_are_given_back_at_other_sizes(
    fresh: LocalEvaluator, scale_problem: TorchProblem
) -> None:
    first = fresh.processes.reference_client(scale_problem)
    before = os.sched_getaffinity(first.pid)
    os.sched_setaffinity(first.pid, {min(before)})
    second = fresh.processes.reference_client(scale_problem.at("tiny"))
    assert second.pid == first.pid
    second.call("hand_weights", seed=1, folder=str(fresh.processes.new_folder("weights")), share=False)
    assert os.sched_getaffinity(second.pid) == before


def test_what_was_compiled_or_is_another_problem_gets_a_new_one(
    fresh: LocalEvaluator, scale_problem: TorchProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = scale_problem.at("tiny")
    other = replace(scale_problem, source=scale_problem.source.replace("x * self.weight", "x + self.weight"))
    first = fresh.processes.reference_client(scale_problem)
    assert first.can_move_to(tiny) and not first.can_move_to(other)
    second = fresh.processes.reference_client(other)
    assert second.pid != first.pid and not first.alive
    with monkeypatch.context() as patched:
        patched.setattr(ReferenceClient, "_ask", lambda *_, **__: {"ok": True, "error": None})
        second.call("compile", name="compile", cache=None)
    assert not second.can_move_to(other.at("tiny"))


def test_one_that_cannot_go_on_is_replaced(fresh: LocalEvaluator, scale_problem: TorchProblem) -> None:
    first = fresh.processes.reference_client(scale_problem)
    pid, ask = first.pid, first._ask

    def dies(seconds: float, op: str, **arguments: Any) -> Any:
        first._worker.end()
        return ask(seconds, op, **arguments)

    first._ask = dies  # type: ignore[method-assign]
    second = fresh.processes.reference_client(scale_problem.at("tiny"))
    assert second.alive and second.pid != pid
