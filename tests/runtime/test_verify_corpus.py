"""`kernelwright corpus verify`: examples are checked, timed where the device can, and recorded."""

from __future__ import annotations

import json
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from kernelwright.cli.main import app
from kernelwright.commands.corpus import verify as verify_corpus
from kernelwright.core import Evaluation
from kernelwright.corpus import ExampleFolder, examples, kernels
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.runtime.runtime import Runtime
from typer.testing import CliRunner

from ..cli.commands import refused_here
from ..conftest import FAST

TIMED, CHECKED = "tilelang_cpu/softmax-lanes", "triton/softmax-online"
OLD = {"before_ms": 2.0, "after_ms": 1.0, "speedup": 2.0, "low": 1.9, "high": 2.1, "device": "a CPU"}


def _verify(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["corpus", "verify", "--device", "cpu", *map(str, arguments)])


class Undisturbed(LocalEvaluator):
    """Measures shortly, and takes no notice of what else runs here: with that a figure would not be recorded."""

    def evaluate(self, *arguments: Any, **options: Any) -> Generator[Evaluation]:
        for evaluation in super().evaluate(*arguments, **options):
            yield evaluation.model_copy(update={"contention": None})


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Runtime, "local_evaluator", lambda _, device, __: lambda: Undisturbed(device, FAST))


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A corpus of one example whose kernels do not compute what its problem asks, and the record of an earlier day."""
    root = tmp_path / "examples"
    folder = shutil.copytree(examples.SHIPPED / TIMED, root / TIMED)
    reference = folder / "problem.py"
    reference.write_text(reference.read_text().replace("torch.softmax(x, dim=1)", "torch.softmax(x, dim=1) + 1"))
    monkeypatch.setattr(examples, "SHIPPED", root)
    (tmp_path / "record.json").write_text(json.dumps({TIMED: OLD, "triton/other": OLD}))
    return tmp_path


def test_an_example_is_timed_and_recorded(tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    record.write_text(json.dumps({"triton/other": OLD}))
    run = _verify(TIMED, "--record", record)
    assert run.exit_code == 0, run.output
    assert "1 of 1 examples are correct" in run.output
    found = json.loads(record.read_text())
    assert list(found) == [TIMED, "triton/other"] and found["triton/other"] == OLD
    gain = found[TIMED]
    assert gain["speedup"] == pytest.approx(gain["before_ms"] / gain["after_ms"], rel=0.5)
    assert gain["low"] <= gain["speedup"] <= gain["high"]
    assert gain["digest"] == ExampleFolder(examples.SHIPPED / TIMED).digest
    assert gain["device"] == gain["environment"]["device"]


def test_triton_is_checked_on_a_cpu_and_not_timed(tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    run = _verify(CHECKED, "--record", record, "--json", "--quiet")
    assert run.exit_code == 0, run.output
    assert json.loads(run.stdout) == {
        "results": [{"example": CHECKED, "right": True, "messages": [], "gain": None}],
        "wrong": [],
    }
    assert not record.exists()


def test_an_unknown_example_is_refused() -> None:
    assert f"there is no example 'triton/softmax-onlin'; the nearest are {CHECKED}" in refused_here(
        _verify("triton/softmax-onlin")
    )


def test_a_wrong_example_is_reported_and_loses_its_record(corpus: Path) -> None:
    record = corpus / "record.json"
    run = _verify("--record", record, "--json", "--quiet")
    assert run.exit_code == 1, run.output
    found = json.loads(run.stdout)
    assert found["wrong"] == [TIMED]
    assert found["results"][0]["messages"][0].startswith("wrong_value: ")
    assert json.loads(record.read_text()) == {"triton/other": OLD}


def test_shipped_kernels_are_checked_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for backend in ("tilelang_cpu", "triton", "tilelang"):
        (tmp_path / backend / "level1").mkdir(parents=True)
        shutil.copy(kernels.SHIPPED / backend / "level1" / "1_19.py", tmp_path / backend / "level1")
    (tmp_path / "triton" / "gemm").mkdir()
    shutil.copy(kernels.SHIPPED / "triton" / "gemm" / "gemm.py", tmp_path / "triton" / "gemm")
    wrong = tmp_path / "triton" / "level1" / "1_19.py"
    wrong.write_text(wrong.read_text().replace("tl.where(x < 0.0, 0.0, x)", "tl.where(x < 0.0, 1.0, x)"))
    monkeypatch.setattr(kernels, "SHIPPED", tmp_path)
    # At the size for a CPU, drawing the inputs alone takes seconds.
    monkeypatch.setattr(verify_corpus, "at_workload", lambda problem, *_: problem.at("tiny"))
    run = _verify(CHECKED, "--kernels", "--json")
    assert run.exit_code == 1, run.output
    found = json.loads(run.stdout)
    # TileLang for CUDA has no interpreter.
    assert [(kernel["kernel"], kernel["right"]) for kernel in found["kernels"]] == [
        ("triton/gemm/gemm", True),
        ("tilelang_cpu/level1/1_19", True),
        ("triton/level1/1_19", False),
    ]
    assert [bool(kernel["speedup"]) for kernel in found["kernels"]] == [False, True, False]
    assert found["kernels"][2]["messages"][0].startswith("wrong_value: ")
    assert found["wrong"] == ["triton/level1/1_19"]
