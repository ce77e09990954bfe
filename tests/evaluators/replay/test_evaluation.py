"""What an evaluation makes of a launch plan: replayed, labelled or refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from kernelwright.core import Config, Kernel, PythonKernel, Status, TorchProblem
from kernelwright.evaluators.candidate.verified import RecordedPlan, VerifiedConfig
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.pipeline.launch_plans import LaunchPlans
from kernelwright.runtime.result import beside_reference

from ...conftest import torch_kernel


@pytest.fixture
def evaluator(proving: LocalEvaluator) -> LocalEvaluator:
    return proving


def test_a_kernel_is_timed_when_its_process_has_ended(
    evaluator: LocalEvaluator, scale_problem: TorchProblem, scale_kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive = []
    really = evaluator._runner.pipeline._timer.time

    def time(*args: object, **kwargs: object) -> object:
        assert evaluator._runner.client is not None
        alive.append(evaluator._runner.client.alive)
        return really(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(evaluator._runner.pipeline._timer, "time", time)
    (found,) = evaluator.evaluate(scale_problem, scale_kernel, [Config({"BLOCK": 8})])
    assert found.status is Status.OK and found.speedup is not None
    assert found.replay is not None and found.replay.replayed and alive == [False]
    assert [line.split()[0] for line in found.replay.steps] == ["torch", "launch"]
    assert found.metrics().replay == found.replay


def test_finalists_are_replayed_interleaved(
    evaluator: LocalEvaluator, scale_problem: TorchProblem, scale_kernel: Kernel
) -> None:
    found = evaluator.compare(scale_problem, scale_kernel, [Config({"BLOCK": size}) for size in (4, 8)])
    assert [evaluation.status for evaluation in found] == [Status.OK] * 2
    assert all(evaluation.replay is not None and evaluation.replay.replayed for evaluation in found)
    assert found[0].reference == found[1].reference is not None


def test_what_reads_values_is_timed_in_its_own_process(evaluator: LocalEvaluator, scale_problem: TorchProblem) -> None:
    kernel = torch_kernel("float(x[0, 0])\n        return x * self.weight")
    (found,) = evaluator.evaluate(scale_problem, kernel, [Config()])
    assert found.status is Status.UNPROVEN and found.speedup is not None
    assert found.replay is not None and not found.replay.replayed
    assert "reads values of a tensor into Python" in found.replay.reason


def test_a_plan_that_changes_is_refused(evaluator: LocalEvaluator, scale_problem: TorchProblem) -> None:
    kernel = torch_kernel(
        "CALLS.append(1)\n        y = x * self.weight\n        return y if len(CALLS) % 2 else y.clone()",
        top="CALLS = []",
    )
    (found,) = evaluator.evaluate(scale_problem, kernel, [Config()])
    assert found.rejection is not None and found.rejection.rule == "changing-plan"


def test_another_launch_between_the_first_call_and_the_recorded_one_is_refused(
    evaluator: LocalEvaluator, scale_problem: TorchProblem, scale_kernel: Kernel
) -> None:
    """In the third call of each model only, which neither recording is."""
    source = scale_kernel.source.replace(
        "        return build(*x.shape)(x, self.weight)\n",
        """\
        self.calls = getattr(self, "calls", 0) + 1
        if self.calls == 3:
            build(*x.shape)(x, self.weight)
        return build(*x.shape)(x, self.weight)
""",
    )
    assert source != scale_kernel.source
    (found,) = evaluator.evaluate(scale_problem, PythonKernel.parse(source), [Config()])
    assert found.rejection is not None and found.rejection.rule == "changing-plan"


NORM = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.BatchNorm1d(features)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(64, 8)]


def get_init_inputs():
    return [8]
"""


@pytest.mark.parametrize(
    ("forward", "rule"),
    [
        ("return self.norm(x)", None),
        ("y = (x - x.mean(0)) * (x.var(0, correction=0) + self.norm.eps).rsqrt()\n"
         "        return y * self.norm.weight + self.norm.bias", None),
        ("y = self.norm(x)\n        self.norm.bias.data.add_(1.0)\n        return y", "weights-changed"),
    ],
    ids=["writes the same", "writes nothing", "writes another"],
)  # fmt: skip
def test_a_kernel_may_write_to_the_weights_that_the_reference_writes_to(
    evaluator: LocalEvaluator, forward: str, rule: str | None
) -> None:
    """As a normalization in training mode writes to its running statistics."""
    problem = TorchProblem(id="level1/1_997", name="997_Norm", source=NORM)
    kernel = NORM.replace("Model(nn", "ModelNew(nn").replace("return self.norm(x)", forward)
    (found,) = evaluator.evaluate(problem, PythonKernel.parse(f"import tilelang.cpu.language\n{kernel}"), [Config()])
    assert (found.rejection and found.rejection.rule) == rule, found.message
    if rule is None:
        assert found.ok and found.replay is not None and found.replay.replayed, found.message


PACKS = """
    def prepare(self):
        self.packed = self.weight * 1.0

    def forward"""


def packing_kernel(kernel: Kernel) -> Kernel:
    source = kernel.source.replace("\n    def forward", PACKS).replace("(x, self.weight)", "(x, self.packed)")
    return PythonKernel.parse(source, "packs")


def test_weights_are_packed_once_and_that_is_timed_apart(
    evaluator: LocalEvaluator, scale_problem: TorchProblem, scale_kernel: Kernel
) -> None:
    (found,) = evaluator.evaluate(scale_problem, packing_kernel(scale_kernel), [Config()])
    assert found.ok and found.replay is not None and found.packing is not None, found.message
    assert [line.split()[0] for line in found.replay.steps] == ["once", "torch", "launch"]
    assert found.stages["packing"] > 0 and found.metrics().packing_ms == found.packing.median_ms
    assert f"packing {found.packing.median_ms:.2g} ms once" in beside_reference(found)
    assert type(found).model_validate_json(found.model_dump_json()) == found


def test_finalists_pack_their_weights_in_one_process(
    evaluator: LocalEvaluator, scale_problem: TorchProblem, scale_kernel: Kernel
) -> None:
    configs = [Config({"BLOCK": size}) for size in (4, 8)]
    both = evaluator.compare(scale_problem, packing_kernel(scale_kernel), configs)
    assert all(evaluation.ok and evaluation.packing is not None for evaluation in both)


def test_a_call_does_not_write_to_what_was_packed(
    evaluator: LocalEvaluator, scale_problem: TorchProblem, scale_kernel: Kernel
) -> None:
    source = packing_kernel(scale_kernel).source.replace(
        "        return build",
        "        self.packed.mul_(1.0).add_(0.0).copy_(self.packed + 1e-7)\n        return build",
    )
    (found,) = evaluator.evaluate(scale_problem, PythonKernel.parse(source, "writes"), [Config()])
    assert found.rejection is not None and found.rejection.rule == "weights-changed", found.message


def test_the_plan_alone(evaluator: LocalEvaluator, scale_problem: TorchProblem, scale_kernel: Kernel) -> None:
    evaluation, plan = evaluator.plan(scale_problem, scale_kernel)
    assert evaluation.ok and evaluation.latency_ms is None
    assert plan is not None and [code.name for code in plan.codes.values()] == ["scale"]


def test_a_plan_that_fails_is_not_the_references_fault(
    evaluator: LocalEvaluator, scale_problem: TorchProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = LaunchPlans.record

    def forged(plans: LaunchPlans, checked: VerifiedConfig) -> Sequence[RecordedPlan]:
        (recorded,) = really(plans, checked)
        first, *rest = recorded.plan.steps
        step = first.model_copy(update={"args": ({"tensor": 0}, [7])})
        return [replace(recorded, plan=recorded.plan.model_copy(update={"steps": (step, *rest)}))]

    monkeypatch.setattr(LaunchPlans, "record", forged)
    kernel = torch_kernel("return x.view(-1).view(x.shape) * self.weight")
    (found,) = evaluator.evaluate(scale_problem, kernel, [Config()])
    assert found.status is Status.UNPROVEN and found.replay is not None and not found.replay.replayed
    assert "is invalid for input of size" in found.replay.reason
