"""The protocol against a recomputation that was written apart: verdicts, seeds, differences, texts, times."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import Problem
from kernelwright.corpus import find_kernel, find_problem, list_problems
from kernelwright.evaluators.kernelbench.evaluator import KernelBench, KernelBenchSettings
from kernelwright.evaluators.kernelbench.precision import KernelBenchPrecision
from kernelwright.evaluators.kernelbench.result import KernelBenchResult
from kernelwright.evaluators.pipeline.processes import Processes
from kernelwright.evaluators.settings import Limits

from .conftest import Case, Recompute

IN_SECONDS = ("1_1", "1_19", "1_23", "1_36", "1_38", "1_47", "1_94", "2_12", "2_95")
"""Problems whose Triton kernels the interpreter runs in no time."""

TIMED = {
    "level1/1_1": "N=4096",
    "level1/1_19": "batch_size=4096,dim=16384",
    "level1/1_23": "batch_size=8192,dim=8192",
    "level1/1_36": "batch_size=16,features=64,dim1=256,dim2=256",
    "level1/1_40": "batch_size=16,features=64,dim1=256,dim2=256",
    "level1/1_47": "batch_size=16,dim1=4096,dim2=1024",
}
"""Sizes at which a GPU takes a tenth of a millisecond and more."""

APART = ("hardware", "device", "runtime_error_traceback", "excessive_speedup")


def shipped(number: str, backend: str = "triton", workload: str = "tiny") -> Case:
    file = find_kernel(number, backend)
    kernel = file.read()
    return Case(find_problem(file.problem).read().at(workload), kernel.source, kernel.language.id)


def modified(
    problem: Problem, body: str, constructor: str = "pass", precision: KernelBenchPrecision = KernelBenchPrecision.FP32
) -> Case:
    """The reference itself, with something done to what it returns."""
    source = (
        f"import torch\n\nclass ModelNew(Model):\n    def __init__(self, *arguments):\n        {constructor}\n"
        f"        super().__init__(*arguments)\n\n    def forward(self, *inputs):\n"
        f"        y = super().forward(*inputs)\n        {body}\n"
    )
    return Case(problem, source, precision=precision)


def cases() -> dict[str, Case]:
    found = {f"right {number}": shipped(number) for number in IN_SECONDS}
    for file in list_problems():
        found[f"wrong {file.id}"] = modified(file.read().at("tiny"), "return y * 1.25 + 0.01")
    relu, norm = (find_problem(number).read().at("tiny") for number in ("1_19", "1_36"))
    found |= {
        "tilelang": shipped("2_10", "tilelang_cpu"),
        "wrong shape": modified(relu, "return y[:1]"),
        "raises": modified(relu, "raise ValueError('it ' + 'will ' * 60 + 'not do')"),
        "raises later": modified(relu, "self.n = getattr(self, 'n', 0) + 1; assert self.n < 3, 'late'; return y"),
        "not a tensor": modified(relu, "return [y]"),
        "refuses to be made": modified(relu, "return y", "raise RuntimeError('no room')"),
        "other weights": modified(find_problem("2_12").read().at("tiny"), "return y", "torch.rand(1)"),
        "half right in half": modified(norm, "return y * 1.003", precision=KernelBenchPrecision.FP16),
        "does not load": Case(relu, "import triton\nimport nothing_of_this_name\n", "triton"),
        "no ModelNew": Case(relu, "import torch\n"),
        "no Python": Case(relu, "class ModelNew(:\n"),
        "no Python in a file": Case(relu, "class ModelNew(:\n", "triton"),
        "spoils its input": modified(relu, "inputs[0].zero_(); return y"),
    }
    return found


def comparable(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Without what names the machine and temporary files, or hangs on the clock."""
    left = {k: v for k, v in metadata.items() if k not in APART}
    if ".py, line" in left.get("compilation_error", ""):
        left["compilation_error"] = left["compilation_error"].rsplit("(", 1)[0]
    return left


def assert_agreement(name: str, result: KernelBenchResult, other: Mapping[str, Any]) -> None:
    assert (result.compiled, result.correctness) == (other["compiled"], other["correctness"]), (name, result, other)
    assert comparable(result.metadata) == comparable(other["metadata"]), name
    assert list(result.seeds) == other["seeds"], name


def test_it_agrees_with_a_recomputation(
    processes: Processes, recompute: Recompute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It is not the times that are looked at, so there is no need to wait for other tests that measure.
    monkeypatch.setenv("KERNELWRIGHT_LOCKS", str(tmp_path))
    chosen = cases()
    findings = recompute(chosen)
    settings = KernelBenchSettings(perf_trials=0)
    results = {
        name: KernelBench(processes, replace(settings, precision=case.precision)).evaluate(
            case.problem, case.source, case.backend
        )
        for name, case in chosen.items()
    }
    others = findings()
    for name, result in results.items():
        assert_agreement(name, result, others[name])
    right = [name for name, result in results.items() if result.correctness]
    assert {*(f"right {number}" for number in IN_SECONDS), "tilelang", "half right in half"} <= set(right)
    assert sorted(set(results) - set(right)) == sorted(
        name for name in chosen if name.split()[0] in ("wrong", "raises", "not", "refuses", "other", "does", "no")
    )
    # Not that both say nothing: the differences are there, one per trial, and not the same for two problems.
    differences = [tuple(result.metadata["max_difference"]) for n, result in results.items() if "wrong level" in n]
    assert len(differences) == len(set(differences)) == 12 and {len(difference) for difference in differences} == {5}
    assert all(result.runtime is None and result.ref_runtime is None for result in results.values())


@pytest.mark.gpu
@pytest.mark.gpu_alone
def test_verdicts_and_times_agree_on_a_gpu(recompute: Recompute) -> None:
    """All shipped Triton kernels; means of a hundred calls."""
    chosen = {file.id: shipped(file.id, workload=TIMED.get(file.id, "cpu")) for file in list_problems()}
    processes = Processes("cuda", Limits())
    try:
        protocol = KernelBench(processes)
        results = {n: protocol.evaluate(case.problem, case.source, case.backend) for n, case in chosen.items()}
    finally:
        processes.close()
    others = recompute(chosen, device="cuda:0", perf_trials=100)()
    ratios = {}
    for name, result in results.items():
        assert_agreement(name, result, others[name])
        if name == "level2/2_61" and not result.correctness:
            continue  # cuDNN computes this reference in TF32 unless told not to, and KernelBench does not tell it
        assert result.runtime is not None and result.ref_runtime is not None, (name, result.metadata)
        ratios[name] = (result.runtime / others[name]["runtime"], result.ref_runtime / others[name]["ref_runtime"])
    # A mean of a hundred calls hangs on the slowest few of them, in either process.
    timed = [ratio for name in TIMED for ratio in ratios[name]]
    assert 0.85 < statistics.median(timed) < 1.15, ratios
