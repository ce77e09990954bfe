"""Examples from journals of this installation's runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import Config, Kernel, PythonKernel, Query, Target, Trial
from kernelwright.core.languages import TILELANG
from kernelwright.corpus import find_kernel
from kernelwright.rag import ExampleRetriever, run_examples, runs

from ..fakes import evaluation
from .kernels import REGISTERS, TEXTBOOK

END = {
    "kind": "finished",
    "target_speedup": 2.0,
    "target_reached": True,
    "stopped": "nothing left to try",
    "start": {"status": "ok"},
}
START, FOUND = PythonKernel.parse(TEXTBOOK), PythonKernel.parse(REGISTERS)


def _trial(kernel: Kernel, origin: str, ms: float | str, contention: float | None = None) -> dict[str, Any]:
    return Trial(origin=origin, evaluation=evaluation(kernel, Config(), ms, contention), seconds=1).to_json()


def _records(final_ms: float = 1.0, verified: bool = True, contention: float | None = None) -> list[dict[str, Any]]:
    """A run that found a kernel of 1 ms where it began with one of 4 ms."""
    turn = {"strategy": "register-tile", "category": "compute", "rationale": "A tile stays in registers."}
    return [
        {"kind": "run", "problem": "level1/1_1", "kernel": START.digest, "device": "a CPU"},
        *({"kind": "kernel", "digest": kernel.digest, "source": kernel.source} for kernel in (START, FOUND)),
        _trial(START, "start", 4.0),
        _trial(FOUND, "turn 1: register-tile", 0.9),
        {"kind": "turn", "iteration": 1, **turn, "improved": True, "improvement": 3.4},
        {"kind": "turn", "iteration": 2, **turn, "rationale": "Useless.", "improved": False, "improvement": 0.0},
        _trial(FOUND, "final", final_ms, contention),
        {**END, "verified": verified, "device": "a CPU", "best": {"status": "ok", "latency_ms": final_ms}},
    ]


def _results(folder: Path, records: list[dict[str, Any]], name: str = "1_P_tilelang_cpu") -> Path:
    logs = folder / "multiturn_logs"
    logs.mkdir(exist_ok=True)
    (logs / f"journal_{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


def test_a_run_becomes_an_example(tmp_path: Path) -> None:
    (found,) = run_examples(_results(tmp_path, _records()), pytest.fail)
    assert (found.slug, found.origin, found.problem) == ("run/1_P_tilelang_cpu", "run", "level1/1_1")
    assert (found.language, found.target) == (TILELANG, Target.CPU)
    assert (found.before, found.after) == (START.source, FOUND.source)
    assert found.operation == "matmul" and found.category == "compute"
    assert found.story == "A tile stays in registers." and "register-tile" in found.title
    assert found.gain is not None
    assert (found.gain.before_ms, found.gain.after_ms, found.gain.speedup) == (4.0, 1.0, 4.0)
    assert found.gain.device == "a CPU"


def test_it_is_found_but_not_for_its_own_problem(tmp_path: Path) -> None:
    retriever = ExampleRetriever(run_examples(_results(tmp_path, _records())), None)
    source = find_kernel("1_1", "tilelang_cpu").read().source
    query = Query("matrix product", TILELANG, Target.CPU, source=source)
    assert [hit.example.origin for hit in retriever.search(query, 3)] == ["run"]
    assert retriever.search(Query("matrix product", exclude="level1/1_1"), 3) == []


@pytest.mark.parametrize(
    "records",
    [
        _records(final_ms=3.8),
        _records(verified=False),
        _records(contention=1.0),
        _records()[:-1],
        _records()[1:],
        [],
    ],
    ids=["too little", "not verified", "disturbed", "not finished", "no run", "empty"],
)
def test_other_runs_teach_nothing(tmp_path: Path, records: list[dict[str, Any]]) -> None:
    assert run_examples(_results(tmp_path, records), pytest.fail) == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda records: [*records[:3], {"kind": "trial"}, *records[3:]],
        lambda records: [record for record in records if record["kind"] != "kernel"],
        lambda records: [{**record, "source": "no kernel"} for record in records],
        lambda records: [{**record, "device": None, "best": 5} for record in records],
    ],
)
def test_a_journal_that_makes_no_sense_is_reported_and_left_out(tmp_path: Path, damage: Any) -> None:
    _results(tmp_path, damage(_records()), "bad")
    notes: list[str] = []
    assert len(run_examples(_results(tmp_path, _records()), notes.append)) == 1
    assert len(notes) == 1 and "bad" in notes[0]


def test_a_run_whose_code_cannot_be_analysed_teaches_without_its_operation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise IndexError("not foreseen")

    monkeypatch.setattr(runs, "operation", fail)
    (found,) = run_examples(_results(tmp_path, _records()), pytest.fail)
    assert found.operation == "unknown operation"
    assert found.after == FOUND.source and found.gain is not None and found.gain.speedup == 4.0
    assert ExampleRetriever([found], None).search(Query("tile in registers"), 1)[0].example == found


def test_a_corrupt_line_is_reported(tmp_path: Path) -> None:
    path = _results(tmp_path, _records()) / "multiturn_logs" / "journal_1_P_tilelang_cpu.jsonl"
    path.write_text("{\n" + path.read_text())
    notes: list[str] = []
    assert run_examples(tmp_path, notes.append) == []
    assert "line 1 is corrupt" in notes[0]


def test_no_results_no_examples(tmp_path: Path) -> None:
    assert run_examples(tmp_path / "nothing", pytest.fail) == []
