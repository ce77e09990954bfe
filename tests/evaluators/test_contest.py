"""Kernels that are checked one after another and timed interleaved with each other and the reference."""

from __future__ import annotations

from typing import Any

import pytest
from kernelwright.core import JointProblem, Kernel, PythonKernel, Status, TorchProblem
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.several_workloads import JudgingSeveral
from kernelwright.evaluators.timing import quiet
from kernelwright.evaluators.workers.client import Worker

from ..conftest import torch_kernel

READS = "float(x[0, 0])\n        return x * self.weight"


@pytest.fixture
def evaluator(proving: LocalEvaluator) -> LocalEvaluator:
    return proving


def changed(kernel: Kernel, old: str, new: str) -> PythonKernel:
    assert old in kernel.source
    return PythonKernel.parse(kernel.source.replace(old, new))


def test_all_share_one_measurement_of_the_reference(
    evaluator: LocalEvaluator, scale_problem: TorchProblem, scale_kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed: list[int] = []
    really = Worker.call

    def call(self: Worker, seconds: float, **request: Any) -> Any:
        if request["op"] == "prepare" and not request["watch"]:
            timed.append(self.pid)
        return really(self, seconds, **request)

    monkeypatch.setattr(Worker, "call", call)
    rivals: list[int] = []
    plainly = quiet.interleave
    monkeypatch.setattr(quiet, "interleave", lambda *given: (rivals.append(given[-1]), plainly(*given))[1])
    start, other = evaluator.contest(scale_problem, [scale_kernel, changed(scale_kernel, "BLOCK = 8", "BLOCK = 4")])
    assert (start.status, other.status) == (Status.OK, Status.OK), (start.message, other.message)
    assert start.reference is not None and start.reference == other.reference
    assert start.kernel_digest == scale_kernel.digest != other.kernel_digest
    assert all(evaluation.replay is not None and evaluation.replay.replayed for evaluation in (start, other))
    assert all(
        evaluation.second_workload is None and evaluation.kernel_profile is not None for evaluation in (start, other)
    )
    assert rivals == [2], "sampling goes on until it is known which is faster"
    halves = timed[2 : len(timed) // 2], timed[len(timed) // 2 :]
    assert len(set(timed)) == 2, "each is replayed in a process of its own"
    assert all(set(half) == set(timed) for half in halves), "neither is timed before the other"


def test_one_that_fails_leaves_the_others_their_times(
    evaluator: LocalEvaluator, scale_problem: TorchProblem, scale_kernel: Kernel
) -> None:
    wrong = changed(scale_kernel, "* W[j]", "+ W[j]")
    good, bad = evaluator.contest(scale_problem, [scale_kernel, wrong])
    assert (good.status, bad.status) == (Status.OK, Status.WRONG_VALUE)
    assert good.speedup is not None
    refused, good = evaluator.contest(
        scale_problem, [changed(scale_kernel, "import torch\n", "import torch, gc\n"), scale_kernel]
    )
    assert good.ok and refused.kernel_digest != scale_kernel.digest


def test_one_that_fails_only_while_it_is_timed_leaves_them_their_times(
    evaluator: LocalEvaluator, scale_problem: TorchProblem, scale_kernel: Kernel
) -> None:
    late = torch_kernel(f"CALLS.append(1)\n        {READS} + (len(CALLS) > 40)", top="CALLS = []")
    good, bad = evaluator.contest(scale_problem, [scale_kernel, late])
    assert good.status is Status.OK and good.speedup is not None
    assert bad.status is Status.REJECTED and bad.rejection is not None and bad.rejection.rule == "wrong-when-timed"


@pytest.mark.parametrize("unproven", [(0,), (1,), (0, 1)])
def test_one_that_is_not_replayed_is_timed_in_its_process_beside_them(
    evaluator: LocalEvaluator, scale_problem: TorchProblem, scale_kernel: Kernel, unproven: tuple[int, ...]
) -> None:
    kernels = [torch_kernel(READS, top=f"N = {number}") if number in unproven else scale_kernel for number in (0, 1)]
    found = evaluator.contest(scale_problem, kernels)
    wanted = [Status.UNPROVEN if number in unproven else Status.OK for number in (0, 1)]
    assert [evaluation.status for evaluation in found] == wanted, [evaluation.message for evaluation in found]
    assert found[0].reference == found[1].reference is not None


def test_at_several_workloads(evaluator: LocalEvaluator, scale_problem: TorchProblem, scale_kernel: Kernel) -> None:
    joint = JointProblem.of_all(scale_problem)
    made = [evaluator.beside()]
    judge = JudgingSeveral(evaluator, lambda: made[0], LocalEvaluator.prepare)
    evaluator.processes.keep(2)
    start, other = judge.contest(joint, [scale_kernel, changed(scale_kernel, "BLOCK = 8", "BLOCK = 4")])
    assert start.ok and other.ok and [*start.workloads] == [*other.workloads] == ["cpu", "tiny"]
    assert start.reference == other.reference
    for name, row in start.workloads.items():
        assert row.reference_ms == other.workloads[name].reference_ms
