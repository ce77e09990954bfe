"""Candidates that end the process, hang, or answer in its place."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from kernelwright.corpus import find_problem
from kernelwright.evaluators.kernelbench.evaluator import KernelBench, KernelBenchSettings
from kernelwright.evaluators.kernelbench.result import KernelBenchResult
from kernelwright.evaluators.pipeline.processes import Processes

SOURCE = "import os, sys, time, torch\n\nclass ModelNew(Model):\n    def forward(self, x):\n        {}\n"


def evaluate(kernelbench: KernelBench, body: str) -> KernelBenchResult:
    return kernelbench.evaluate(find_problem("1_19").read().at("tiny"), SOURCE.format(body), "cuda")


def test_a_worker_that_ends_gives_a_result(kernelbench: KernelBench) -> None:
    for body, said in (
        ("os._exit(0)", "exited with code 0"),
        ("sys.exit(0)", "exited with code"),
        ("os.kill(os.getpid(), 11)", "SIGSEGV"),
    ):
        result = evaluate(kernelbench, body)
        assert not result.compiled and not result.correctness and result.speedup is None
        assert said in result.metadata["other_error"], body
        assert result.metadata["hardware"] and result.metadata["device"] == "cpu"
    assert evaluate(kernelbench, "return torch.relu(x)").correctness


def test_a_candidate_that_hangs_is_ended(processes: Processes) -> None:
    hasty = KernelBench(processes, KernelBenchSettings(perf_trials=1, timeout_s=2))
    result = evaluate(hasty, "time.sleep(60)")
    assert not result.compiled
    assert result.reason == "error: did not finish within 2 s"


def test_an_answer_that_is_no_result_counts_as_a_failure(kernelbench: KernelBench) -> None:
    """The process is the candidate's, so it may send what it likes; what is malformed goes no further."""
    forged = (
        "import gc, kernelwright.evaluators.workers.channel as c; "
        "channel = next(o for o in gc.get_objects() if isinstance(o, c.Channel)); "
        "channel.send({'result': {'compiled': True, 'correctness': True, 'runtime': -3.0}}); time.sleep(9)"
    )
    result = evaluate(kernelbench, forged)
    assert not result.correctness
    assert result.metadata["other_error"] == "error: the process sent no proper answer"


def test_neither_candidate_nor_reference_reaches_the_users_files(
    kernelbench: KernelBench, processes: Processes, tmp_path: Path
) -> None:
    """KernelBench has both in one process, and either may come from elsewhere."""
    if processes.sandbox_used == "none":
        pytest.skip("no sandbox works here")
    secret, new = tmp_path / "secret", tmp_path / "new"
    secret.write_text("PLANTED-SECRET")
    problem = find_problem("1_19").read().at("tiny")
    for attempt in (f"open({str(secret)!r}).read()", f"open({str(new)!r}, 'w')"):
        result = evaluate(kernelbench, f"raise RuntimeError({attempt})")
        assert not result.correctness and "PLANTED-SECRET" not in str(result.metadata)
        assert any(said in str(result.metadata) for said in ("Permission denied", "No such file", "Read-only"))
        stealing = dataclasses.replace(problem, source=f"{problem.source}\nraise RuntimeError({attempt})\n")
        result = kernelbench.evaluate(stealing, SOURCE.format("return torch.relu(x)"), "cuda")
        assert not result.compiled and "PLANTED-SECRET" not in str(result.metadata)
    assert not new.exists()
