"""What a batch takes over from an earlier run, and what it runs again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kernelwright.api.jobs import Job
from kernelwright.api.optimize import earlier_summary, identity
from kernelwright.core import Journal, PythonKernel, TorchProblem

from ..conftest import SCALE_KERNEL, SCALE_PROBLEM

JOB = Job(
    PythonKernel.parse(SCALE_KERNEL),
    TorchProblem(id="level1/1_999", name="999_Scale", source=SCALE_PROBLEM),
    "cpu",
    "1_999",
)
FINISHED: dict[str, Any] = {"verified": True, "target_speedup": 2.0, "cut_short": False, "stopped": "nothing left"}


def recorded(folder: Path, **changes: Any) -> Path:
    with Journal(folder / "journal.jsonl") as journal:
        journal.append({"kind": "run", **identity(JOB)})
        journal.append({"kind": "finished", **FINISHED, **changes})
    return folder / "journal.jsonl"


def test_a_finished_run_is_taken_over(tmp_path: Path) -> None:
    assert earlier_summary(recorded(tmp_path), JOB, 2.0) == FINISHED


@pytest.mark.parametrize("change", [{"verified": False}, {"target_speedup": 3.0}, {"cut_short": True}])
def test_a_run_with_something_left_to_do_is_not(tmp_path: Path, change: dict[str, Any]) -> None:
    assert earlier_summary(recorded(tmp_path, **change), JOB, 2.0) is None


def test_a_run_that_did_not_finish_is_not(tmp_path: Path) -> None:
    assert earlier_summary(tmp_path / "journal.jsonl", JOB, 2.0) is None
