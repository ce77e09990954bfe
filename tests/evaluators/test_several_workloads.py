"""Several workloads as one problem: all are made ready at once, and each kernel is judged at all of them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from kernelwright.core import Config, Evaluation, JointProblem, Kernel, Problem, Profile
from kernelwright.evaluators.several_workloads import SearchingSeveral, SeveralWorkloads

from ..fakes import PROBLEM, PROFILE, evaluation, kernel

JOINT = JointProblem.of_all(replace(PROBLEM, source=f"{PROBLEM.source}\nWORKLOADS = {{'a': {{}}, 'b': {{}}}}"))


class Member:
    """Takes as long as the kernel says, and twice as long at workload b."""

    def __init__(self, together: threading.Barrier | None = None) -> None:
        self.prepared: list[str] = []
        self.together = together

    def prepare(self, problem: Problem, kernel: Kernel) -> None:
        if self.together is not None:
            self.together.wait(10)
        self.prepared.append(problem.workload)

    def evaluate(
        self, problem: Problem, kernel: Kernel, configs: Iterable[Config], known: Sequence[Evaluation] = ()
    ) -> Iterator[Evaluation]:
        for config in configs:
            if self.together is not None:
                self.together.wait(10)
            time = float(kernel.bind(config).constants["RESULT"]) * (2 if problem.workload == "b" else 1)
            yield evaluation(kernel, config, time)

    def screen(self, problem: Problem, kernels: Sequence[Kernel]) -> Iterator[Evaluation]:
        for variant in kernels:
            yield from self.evaluate(problem, variant, [Config()])

    def compare(self, problem: Problem, kernel: Kernel, configs: Sequence[Config]) -> list[Evaluation]:
        return list(self.evaluate(problem, kernel, configs))

    def profile(self, problem: Problem) -> Profile:
        return PROFILE.model_copy(update={"device": problem.workload, "flops": 8.0 if problem.workload == "b" else 2.0})


def several(kind: type[SeveralWorkloads[Any]], at_once: bool) -> tuple[SeveralWorkloads[Any], list[Member]]:
    together = threading.Barrier(2) if at_once else None
    members = [Member(together)]

    def another() -> Member:
        members.append(Member(together))
        return members[-1]

    return kind(members[0], another, Member.prepare, side_by_side=at_once), members


def rows(found: Evaluation) -> dict[str, float | None]:
    return {name: row.latency_ms for name, row in found.workloads.items()}


@pytest.mark.parametrize("at_once", [False, True])
def test_a_config_is_judged_at_all_workloads(at_once: bool) -> None:
    """At once, a barrier lets none pass before the other has come as far."""
    evaluator, members = several(SeveralWorkloads, at_once)
    configs = [Config({"RESULT": time}) for time in (3.0, 5.0)]
    found = list(evaluator.evaluate(JOINT, kernel(1.0), configs))
    assert [rows(evaluation) for evaluation in found] == [{"a": 3.0, "b": 6.0}, {"a": 5.0, "b": 10.0}]
    assert [member.prepared for member in members] == [["a"], ["b"]]
    list(evaluator.evaluate(JOINT, kernel(1.0), configs))
    assert [member.prepared for member in members] == [["a"], ["b"]], "once for a problem"


def test_configs_are_drawn_as_late_as_they_are_needed() -> None:
    """A tuner chooses with all results that there are."""
    evaluator, _ = several(SeveralWorkloads, at_once=True)
    drawn: list[float] = []

    def choose() -> Iterator[Config]:
        for time in (3.0, 5.0, 7.0):
            drawn.append(time)
            yield Config({"RESULT": time})

    running = evaluator.evaluate(JOINT, kernel(1.0), choose())
    assert [(next(running).latency_ms is not None, len(drawn)) for _ in range(2)] == [(True, 1), (True, 2)]
    running.close()
    assert drawn == [3.0, 5.0]


def test_each_workload_has_its_profile_and_all_have_one() -> None:
    evaluator, _ = several(SeveralWorkloads, at_once=False)
    assert {name: profile.flops for name, profile in evaluator.profiles(JOINT).items()} == {"a": 2.0, "b": 8.0}
    joined = evaluator.profile(JOINT)
    assert (joined.device, joined.flops) == ("b", 4.0)
    assert list(evaluator.profiles(PROBLEM)) == [PROBLEM.workload]
    assert evaluator.profile(PROBLEM) == evaluator.profiles(PROBLEM)[PROBLEM.workload]


@pytest.mark.parametrize("at_once", [False, True])
def test_kernels_are_screened_at_all_workloads(at_once: bool) -> None:
    evaluator, _ = several(SearchingSeveral, at_once)
    assert isinstance(evaluator, SearchingSeveral)
    found = list(evaluator.screen(JOINT, [kernel(4.0), kernel(2.0)]))
    assert [rows(evaluation) for evaluation in found] == [{"a": 4.0, "b": 8.0}, {"a": 2.0, "b": 4.0}]
    if not at_once:
        assert [evaluation.latency_ms for evaluation in evaluator.screen(PROBLEM, [kernel(4.0)])] == [4.0]
