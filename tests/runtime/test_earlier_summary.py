"""What a batch takes over from an earlier run, and what it runs again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import FinishedRecord, Journal, JournalError, Metrics, PythonKernel, Status, TorchProblem
from kernelwright.runtime.jobs import Job, earlier_summary, run_record, same_run

from ..conftest import SCALE_KERNEL, SCALE_PROBLEM

JOB = Job(
    PythonKernel.parse(SCALE_KERNEL),
    TorchProblem(id="level1/1_999", name="999_Scale", source=SCALE_PROBLEM),
    "cpu",
    "1_999",
)
TIMED = Metrics(status=Status.OK, latency_ms=1.0)
FINISHED = FinishedRecord(
    target_speedup=2.0, target_reached=True, verified=True, start=TIMED, best=TIMED, cut_short=False, stopped="nothing"
)


def recorded(folder: Path, **changes: Any) -> Path:
    with Journal(folder / "journal.jsonl") as journal:
        journal.append(run_record(JOB, "rules"))
        journal.append(FINISHED.model_copy(update=changes))
    return folder / "journal.jsonl"


def test_a_finished_run_is_taken_over(tmp_path: Path) -> None:
    found = earlier_summary(recorded(tmp_path), JOB, 2.0)
    assert found is not None and {"kind": "finished", **found} == FINISHED.to_json()


@pytest.mark.parametrize("change", [{"verified": False}, {"target_speedup": 3.0}, {"cut_short": True}])
def test_a_run_with_something_left_to_do_is_not(tmp_path: Path, change: dict[str, Any]) -> None:
    assert earlier_summary(recorded(tmp_path, **change), JOB, 2.0) is None


def test_a_run_that_did_not_finish_is_not(tmp_path: Path) -> None:
    assert earlier_summary(tmp_path / "journal.jsonl", JOB, 2.0) is None


@pytest.mark.parametrize("name", ["reference", "sizes", "allow_torch", "graph", "kernel", "device", "against"])
def test_a_run_whose_journal_says_something_else_is_not(tmp_path: Path, name: str) -> None:
    with Journal(tmp_path / "journal.jsonl") as journal:
        journal.append(run_record(JOB, "rules").model_copy(update={name: ""}))
        journal.append(FINISHED)
    assert earlier_summary(tmp_path / "journal.jsonl", JOB, 2.0) is None


@pytest.mark.parametrize(("name", "other"), [("proof", "quick"), ("versions", "torch 1.0")])
def test_verdicts_of_another_proof_or_compiler_are_not_taken_over(tmp_path: Path, name: str, other: str) -> None:
    known = run_record(JOB, "rules")
    assert "torch " in known.versions and "tilelang " in known.versions and known.proof == "replayed"
    with Journal(tmp_path / "journal.jsonl") as journal:
        journal.append(known.model_copy(update={name: other}))
        journal.append(FINISHED)
        with pytest.raises(JournalError, match=f"is of another run: {name} changed; leave `resume` out"):
            same_run(journal, run_record(JOB, "rules"))
    assert earlier_summary(tmp_path / "journal.jsonl", JOB, 2.0) is None


def test_an_older_journal_which_does_not_say_is_gone_on_with(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal.jsonl") as journal:
        journal.append(run_record(JOB, "rules").model_copy(update={"proof": "", "versions": ""}))
        same_run(journal, run_record(JOB, "rules"))


def test_the_summary_of_an_older_run_has_no_fields_that_it_did_not_have(tmp_path: Path) -> None:
    path = recorded(tmp_path)
    *lines, last = path.read_text().splitlines()
    finished = {name: value for name, value in json.loads(last).items() if name not in ("cut_short", "model", "signed")}
    path.write_text("\n".join([*lines, json.dumps(finished)]) + "\n")
    found = earlier_summary(path, JOB, 2.0)
    assert found is not None and {"kind": "finished", **found} == finished
