"""A kernel that was not replayed is not ok: not in JSON, not in the exit code, not in its colour."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kernelwright.commands._evaluate.verdict import Result, comparison_table, describe_evaluation
from kernelwright.core import Config, Evaluation, Replay
from kernelwright.mcp_server.worker import reply

from ..conftest import TORCH_KERNEL
from ..fakes import evaluation, kernel
from .commands import SCALE, kernelwright

WHY = "reads values of a tensor into Python"


@pytest.fixture(autouse=True)
def in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KERNELWRIGHT_QUICK")


@pytest.fixture
def reading(kernel_file: Path) -> Path:
    """A kernel that reads a value, beside its problem."""
    path = kernel_file.with_name("1_999_reading.py")
    path.write_text(TORCH_KERNEL.format(top="", body="float(x[0, 0])\n        return x * self.weight"))
    return path


def test_evaluate_says_so_unless_the_user_accepts_it(reading: Path) -> None:
    command = ("evaluate", "--kernel", reading, *SCALE, "--workload", "tiny", "--allow-torch", "all", "--json")
    run = kernelwright(*command, cwd=reading.parent)
    found = json.loads(run.stdout)
    assert (run.returncode, found["status"]) == (1, "unproven"), run.stderr
    assert WHY in found["message"] and found["speedup"] > 0
    run = kernelwright(*command, "--no-require-replay", cwd=reading.parent)
    found = json.loads(run.stdout)
    assert (run.returncode, found["status"], found["message"]) == (0, "ok", ""), run.stderr
    assert found["replay"]["accepted"] is True and WHY in found["replay"]["reason"]


def test_a_quick_look_accepts_it_and_says_that_it_was_one(reading: Path) -> None:
    command = ("evaluate", reading, *SCALE, "--workload", "tiny", "--allow-torch", "all", "--quick", "--json")
    run = kernelwright(*command, cwd=reading.parent)
    found = json.loads(run.stdout)
    assert (run.returncode, found["status"], found["environment"]["timing"]) == (0, "ok", "quick"), run.stderr
    assert found["replay"]["accepted"] is True and found["replay"]["reason"].startswith("a quick evaluation on a CPU")


@pytest.mark.parametrize(
    ("command", "verdict"), [("check", "unproven"), ("profile", None), ("tune", None), ("list", None)]
)
def test_other_commands_say_so(reading: Path, command: str, verdict: str | None) -> None:
    options = (*SCALE, "--workload", "tiny", "--allow-torch", "all", "--json")
    start = {
        "check": ("check", reading),
        "profile": ("profile", "--kernel", reading),
        "tune": ("tune", "kernel", reading, "--param", "N=1,2"),
        "list": ("optimize", "--list-slow", "--folder", reading.parent),
    }[command]
    if command == "tune":
        reading.write_text(reading.read_text().replace("class ModelNew", "N = 1\n\n\nclass ModelNew"))
    if command == "list":
        options = ("--device", "cpu", "--sandbox", "none", "--allow-torch", "all", "--problem", "level1/999_Scale.py")
    run = kernelwright(*start, *options, cwd=reading.parent)
    assert run.returncode == 1, run.stdout + run.stderr
    said = run.stdout + run.stderr
    assert "unproven" in said and WHY in said
    if verdict is not None:
        assert json.loads(run.stdout)["kernels"][0]["verdict"] == verdict


def test_it_is_yellow_and_a_model_is_told_that_it_is_not_correct() -> None:
    timed: Any = dict(evaluation(kernel(2.0), Config(), 2.0))
    found = Evaluation(**{**timed, "replay": Replay(replayed=False, reason=WHY)})
    verdict = Result(problem="level1/1_1", workload="default", evaluation=found, kernel=kernel(2.0))
    assert "[yellow]unproven[/]" in describe_evaluation(verdict, found)
    assert not verdict.correct
    assert "[yellow]unproven[/]" in str(list(comparison_table([verdict]).columns[2].cells))
    answer = reply(verdict, "", "/")
    assert answer["status"] == "unproven" and "explain_error" in answer["next"]
    assert f"not replayed: {WHY}" in answer["message"] and verdict.failed_kernel is not None
