"""A user's function with a plan for each set of integers: what holds for the first one holds for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Never

import pytest
from kernelwright.core import Config, Evaluation, ProblemError, Status, TorchProblem
from kernelwright.core.launch_plan import LaunchStep
from kernelwright.corpus.functions.translation import translate
from kernelwright.evaluators.candidate.client import CandidateClient
from kernelwright.evaluators.candidate.verified import RecordedPlan, VerifiedConfig
from kernelwright.evaluators.contest import ContestPipeline
from kernelwright.evaluators.guards.read_integers import SETS
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.pipeline.candidate_runner import CandidateRunner
from kernelwright.evaluators.pipeline.launch_plans import LaunchPlans
from kernelwright.evaluators.reference.client import ReferenceClient

from ...exploits.harness import unread
from ...exploits.test_functions import FOLDER, judged


def checked(evaluator: LocalEvaluator, name: str) -> Evaluation:
    """A function whose plans are made and replayed, and not timed: then chance would find much of it, too."""
    path = FOLDER / f"{name}.py"
    function = translate(f"{path}::function", f"{path}::reference", f"{path}::inputs")
    with unread():
        return evaluator.plan(function.problem, function.kernel)[0]


@pytest.mark.parametrize("read", [True, False])
def test_what_may_follow_from_integers_that_never_differ_is_said(
    evaluator: LocalEvaluator, tmp_path: Path, read: bool
) -> None:
    """A plan that is right for them alone is not saved."""
    text = (FOLDER / "305_order_as_many_numbers.py").read_text()
    text = text.replace("permuted(seed)", "[permuted(seed)[0], torch.arange(96).flip(0)]")
    text = text if read else text.replace("order.tolist()", "reversed(range(96))")
    (tmp_path / "ops.py").write_text(text)
    (tmp_path / "rows_kernel.py").write_text((FOLDER / "rows_kernel.py").read_text())
    function = translate(*(f"{tmp_path / 'ops.py'}::{name}" for name in ("function", "reference", "inputs")))
    with unread():
        found, _ = evaluator.plan(function.problem, function.kernel, tmp_path / "saved")
    assert found.ok and found.replay is not None and found.replay.replayed
    said = "the launches may depend on the integers of order, which are always the same"
    assert found.replay.depends_on == (said if read else "")
    assert (tmp_path / "saved").exists() is not read


def forged(monkeypatch: pytest.MonkeyPatch, number: int, change: Callable[[LaunchStep], LaunchStep]) -> None:
    """Let the launches of the plan with this number be others."""
    really = LaunchPlans.record

    def record(plans: LaunchPlans, config: VerifiedConfig) -> Sequence[RecordedPlan]:
        recorded = [*really(plans, config)]
        assert len(recorded) == SETS
        plan = recorded[number].plan
        steps = tuple(change(step) if isinstance(step, LaunchStep) else step for step in plan.steps)
        recorded[number] = replace(recorded[number], plan=plan.model_copy(update={"steps": steps}))
        return recorded

    monkeypatch.setattr(LaunchPlans, "record", record)


@pytest.mark.parametrize("number", [0, 1, SETS - 1])
def test_each_plan_is_compared(evaluator: LocalEvaluator, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def nothing(step: LaunchStep) -> LaunchStep:
        return step.model_copy(update={"arguments": (*step.arguments[:-1], 0)})

    forged(monkeypatch, number, nothing)
    found = checked(evaluator, "honest_one_number")
    assert found.status is Status.UNPROVEN and found.replay is not None and not found.replay.replayed
    assert "its launches alone do not compute what its call returns" in found.replay.reason


def test_each_plan_is_compared_on_all_distributions(evaluator: LocalEvaluator) -> None:
    found = checked(evaluator, "315_careful_with_the_first_integers")
    assert found.status is Status.WRONG_VALUE
    assert "with inputs of another distribution" in found.message


def test_torchs_share_of_each_plan_is_measured(evaluator: LocalEvaluator) -> None:
    found = checked(evaluator, "316_left_to_torch_later")
    assert found.rejection is not None and found.rejection.rule == "torch-operator"


def test_the_hosts_work_of_each_plan_counts(evaluator: LocalEvaluator, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int | None] = []
    really = CandidateClient.draw_host

    def draw_host(client: CandidateClient, config: VerifiedConfig, integers: int | None) -> None:
        drawn.append(integers)
        really(client, config, integers)

    monkeypatch.setattr(CandidateClient, "draw_host", draw_host)
    found = judged(evaluator, "honest_one_number")
    assert found.ok and found.host_us is not None
    assert len(set(drawn)) == len(drawn) == SETS


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The seeds of the integers of each verification."""
    found: list[tuple[int, ...]] = []
    really = ReferenceClient.integer_sets

    def integer_sets(client: ReferenceClient, draw: Callable[[], int]) -> tuple[int, ...]:
        found.append(really(client, draw))
        return found[-1]

    monkeypatch.setattr(ReferenceClient, "integer_sets", integer_sets)
    return found


def test_each_evaluation_is_on_other_integers(evaluator: LocalEvaluator, drawn: list[tuple[int, ...]]) -> None:
    """A process that lives on knows those that it has seen."""
    for _ in range(2):
        assert checked(evaluator, "honest_one_number").ok
    first, second = drawn
    assert not set(first) & set(second)


@pytest.mark.parametrize("compares", ["compare", "contest"])
def test_what_is_compared_is_timed_on_the_same_integers_one_by_one_too(
    evaluator: LocalEvaluator, drawn: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch, compares: str
) -> None:
    """Also where the reference, which fails for two together, is started again between them."""

    def fails(*_: object) -> Never:
        raise ProblemError("too little memory for two")

    def started_again(runner: CandidateRunner, problem: TorchProblem, *others: Any) -> Evaluation:
        runner.processes.reference_client(problem).close()
        return really(runner, problem, *others)

    really = CandidateRunner.evaluate_in_full
    monkeypatch.setattr(CandidateRunner, "evaluate_in_full", started_again)
    monkeypatch.setattr(ContestPipeline, "several", fails)
    monkeypatch.setattr(ContestPipeline, "together", fails)
    path = FOLDER / "honest_one_number.py"
    function = translate(f"{path}::function", f"{path}::reference", f"{path}::inputs")
    with unread():
        if compares == "compare":
            found = evaluator.compare(function.problem, function.kernel, [Config(), Config()])
        else:
            found = evaluator.contest(function.problem, [function.kernel, function.kernel])
    assert [item.ok for item in found] == [True, True], [item.message for item in found]
    assert len(drawn) >= 2 and len(set(drawn)) == 1


def test_host_work_that_is_remembered_by_integers_counts(evaluator: LocalEvaluator, tmp_path: Path) -> None:
    text = (FOLDER / "honest_one_number.py").read_text()
    text = text.replace("import torch\n", "import functools\nimport time\n\nimport torch\n", 1)
    remembered = "@functools.cache\ndef last_of(*ends):\n    time.sleep(0.005)\n    return max(ends)\n\n\n"
    text = text.replace("def function", f"{remembered}def function")
    text = text.replace("int(ends.max().item())", "last_of(*ends.tolist())")
    (tmp_path / "ops.py").write_text(text)
    (tmp_path / "rows_kernel.py").write_text((FOLDER / "rows_kernel.py").read_text())
    function = translate(*(f"{tmp_path / 'ops.py'}::{name}" for name in ("function", "reference", "inputs")))
    with unread():
        (found,) = evaluator.evaluate(function.problem, function.kernel, [Config()])
    assert found.ok and found.host_us is not None
    assert found.host_us >= 5000, "each call sleeps for 5 ms where its integers are new"
