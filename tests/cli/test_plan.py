"""`kernelwright plan` says what is launched, whether that is all, and writes only what is."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace
from typing import Any

import pytest
from kernelwright.commands import plan as command
from kernelwright.core import Config, Replay, Status
from kernelwright.core.launch_plan import LaunchPlan, TensorLayout, TorchStep

from ..fakes import evaluation, kernel
from .commands import kernelwright, refused

LAYOUT = TensorLayout(shape=(2, 3), strides=(3, 1), dtype="float32")
STEP = TorchStep(operator="aten.relu.default", args=({"tensor": 0},), results=(1,), layouts=(LAYOUT,))
PLAN = LaunchPlan(inputs=(0,), layouts={0: LAYOUT}, codes={}, steps=(STEP,), outputs=(1,), returns="tensor")
JOB = SimpleNamespace(problem=SimpleNamespace(id="level1/1_19", workload="tiny"), kernel=None, device="cpu")
Shown = Callable[..., CompletedProcess[str]]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shown:
    def show(
        replay: Replay | None, *more: object, result: float | str = 1.0, plan: Any = PLAN
    ) -> CompletedProcess[str]:
        found = evaluation(kernel(1.0), Config(), result).model_copy(update={"replay": replay})

        @contextlib.contextmanager
        def opened() -> Iterator[Any]:
            yield SimpleNamespace(plan=lambda *_: (found, plan))

        def planned(options: command.Options, runtime: object) -> command.Plan:
            return command.Plan(JOB, options.save_plan, opened)  # type: ignore[arg-type]

        monkeypatch.setattr(command, "plan", planned)
        return kernelwright("plan", "--kernel", "1_19", *more, cwd=tmp_path)

    return show


def test_a_plan_that_does_the_same_is_shown_and_written(shown: Shown) -> None:
    run = shown(Replay(replayed=True), "--save-plan", "folder")
    assert run.returncode == 0 and "  1 torch   relu.default -> 2x3 float32" in run.stdout
    assert "replayed: yes" in run.stdout and "plan: folder" in run.stdout


def test_one_that_does_not_is_not_written(shown: Shown) -> None:
    run = shown(Replay(replayed=False, reason="random numbers"), "--save-plan", "folder")
    assert run.returncode == 1 and "replayed: no; random numbers" in run.stdout and "no plan is written" in run.stdout


def test_a_wrong_kernel_is_named_so(shown: Shown) -> None:
    run = shown(None, result=str(Status.WRONG_VALUE), plan=None)
    assert run.returncode == 1 and "replayed: no; wrong_value: as told" in run.stdout


def test_json_is_one_object(shown: Shown) -> None:
    run = shown(Replay(replayed=True), "--json")
    record = json.loads(run.stdout)
    assert record["replayed"] is True and LaunchPlan.model_validate(record["plan"]) == PLAN


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "plan").touch()
    run = kernelwright("plan", "--kernel", "1_19", "--device", "cpu", "--save-plan", "plan", cwd=tmp_path)
    assert refused(run) == "error: --save-plan: plan is a file; name a folder"
