"""Faults that users of other tuners and judges have reported: docs/faults.md names the reports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kernelwright.core import Config, Evaluation, Journal, Kernel, Status, TorchProblem
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.settings import Limits

from ..conftest import FAST, Unguarded, torch_kernel

HELD = """
import sys, time
from pathlib import Path
from kernelwright.core import Journal

journal = Journal(Path("journal.jsonl"))
print("held", flush=True)
time.sleep(60)
"""
FOREVER = "kernelwright-of-a-compiler"


@pytest.fixture(scope="module")
def evaluator() -> Iterator[LocalEvaluator]:
    with LocalEvaluator(settings=FAST) as evaluator:
        yield evaluator


def evaluated(evaluator: LocalEvaluator, problem: TorchProblem, kernel: Kernel, *configs: Config) -> list[Evaluation]:
    return list(evaluator.evaluate(problem, kernel, configs or [Config()]))


def test_configs_that_write_a_part_each_do_not_complete_one_another(
    evaluator: LocalEvaluator, scale_problem: TorchProblem
) -> None:
    """Their outputs get the same memory, in which another one's part would still stand."""
    body = "y = torch.empty_like(x); y[OFFSET::2] = x[OFFSET::2] * self.weight; return y"
    kernel, configs = torch_kernel(body, "OFFSET = 0"), [Config({"OFFSET": offset}) for offset in (0, 1)]
    found = evaluated(evaluator, scale_problem, kernel, *configs, *configs)
    assert [item.status for item in found] == [Status.WRONG_VALUE] * 4, [item.message for item in found]


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_what_is_not_finite_is_not_left_out_of_a_comparison(
    evaluator: LocalEvaluator, scale_problem: TorchProblem, value: str
) -> None:
    all_of_it = torch_kernel(f"return torch.full_like(x, float('{value}'))")
    one = torch_kernel(f"y = x * self.weight; y[-1, -1] = float('{value}'); return y")
    for kernel in (all_of_it, one):
        (found,) = evaluated(evaluator, scale_problem, kernel)
        assert found.status is Status.WRONG_VALUE, found.message


def test_a_kernel_that_fails_after_many_calls_is_not_ok(evaluator: LocalEvaluator, scale_problem: TorchProblem) -> None:
    counted = "CALLS.append(1)\n        if len(CALLS) > 30:\n            raise RuntimeError('too often')"
    (found,) = evaluated(
        evaluator, scale_problem, torch_kernel(f"{counted}\n        return x * self.weight", "CALLS = []")
    )
    assert found.status is Status.RUNTIME_ERROR and "too often" in found.message, found.message
    (fine,) = evaluated(evaluator, scale_problem, torch_kernel("return x * self.weight"))
    assert fine.status is Status.OK


def named(name: str) -> list[int]:
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if name.encode() in (place / "cmdline").read_bytes():
                found.append(int(place.name))
        except OSError:
            continue
    return found


def test_a_compilers_own_processes_end_with_its_time_limit(scale_problem: TorchProblem) -> None:
    waits = f"subprocess.run(['bash', '-c', 'sleep 300; : {FOREVER}'])"
    settings = replace(FAST, limits=Limits(compile_s=4, call_s=4))
    with Unguarded(settings=settings) as evaluator:
        (found,) = evaluated(evaluator, scale_problem, torch_kernel(f"{waits}; return x", "import subprocess"))
    assert found.status is Status.TIMEOUT, found.message
    deadline = time.monotonic() + 10
    while named(FOREVER) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert named(FOREVER) == []


def test_a_journal_whose_process_was_killed_is_free_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HELD]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        os.kill(holder.pid, signal.SIGKILL)
    began = time.monotonic()
    Journal(tmp_path / "journal.jsonl").close()
    assert time.monotonic() - began < 5
