"""`kernelwright model`: a script runs with plain torch.compile and with the store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from kernelwright.commands import model as command
from kernelwright.deploy.models.script_runs import GraphBreak, ScriptRun
from kernelwright.deploy.models.store import RegionStore

from ..cli.commands import kernelwright, refused
from ..deploy.models.regions import entry, regions

SUM = """
import sys, torch, kernelwright

torch.manual_seed(0)
x, weight = torch.randn(256, 256), torch.randn(256, 2048)

def sums(x):
    if "break" in sys.argv:
        print("a graph break")
    return (x @ weight).sum(-1)

compiled = torch.compile(sums)
for number in range(24):
    total = compiled(x)
    kernelwright.step(total.sum())
"""
"""Sums of a product's rows, of which torch computes all of the product."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KERNELWRIGHT_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "sums.py").write_text(SUM)
    return tmp_path


def add_faster(folder: Path) -> str:
    """Add the kernel that sums the weight's rows first."""
    inputs = torch.randn(256, 256), torch.randn(256, 2048)
    (region,) = regions(lambda x, weight: (x @ weight).sum(-1), *inputs)
    text = region.text.splitlines()
    (product,) = (line for line in text if ".mm." in line)
    (total,) = (line for line in text if ".sum." in line)
    found = entry(region, (f"{product}\n{total}", "        v1 = x0 @ x1.sum(-1)"))
    return RegionStore([folder / "store"]).add(found).stem


@pytest.mark.timeout(1200)
def test_a_script_runs_with_and_without_the_store(folder: Path) -> None:
    name = add_faster(folder)
    run = kernelwright("model", "sums.py", "--rounds", 2, "--json", "--", "break", cwd=folder)
    found = json.loads(run.stdout)
    assert run.returncode == (0 if found["credited"] else 3), run.stderr
    assert found["steps"] == 18 and found["marked"] and found["compared"]["agrees"]
    assert found["compared"]["what"] == "a curve of 24 values"
    (row,) = (row for row in found["regions"] if row["entry"])
    assert row["entry"] == name and row["what"] == "mm, sum" and row["before_ms"] > 0 and row["after_ms"] > 0
    (broken,) = found["breaks"]
    assert broken["where"] == "sums.py:9" and found["graphs"] == 1
    assert json.loads((folder / found["record"]).read_text()) == found


class MadeUpRuns:
    """Runs of a script in turns, with made-up steps and values, in the place of processes."""

    used: tuple[str, ...] = ("an entry",)

    def __init__(self, store_ms: float, *curves: float) -> None:
        self._store_ms = store_ms
        self._curves = list(curves)
        self.ways: list[str] = []

    def __call__(self, script: Path, arguments: object, folder: Path, way: str, variables: object) -> ScriptRun:
        self.ways.append(way)
        times = (9.0, *((2.0 if way == "plain" else self._store_ms) + number / 100 for number in range(20)))
        curve = (self._curves.pop(0),) if way == "values" else ()
        broken = (GraphBreak("sums.py:9", "a reason", 2),)
        return ScriptRun(1, 21, 1, broken, True, times, self.used, ("an entry is old",), curve, (), ("float32",))


@pytest.mark.parametrize(
    ("runs", "code", "lines"),
    [
        (MadeUpRuns(1.0, 5.0, 5.001), 0, ["credited gain: 1.9", "agree: a curve of 1 values: error 0.0002"]),
        (MadeUpRuns(2.01, 5.0, 5.0), 3, ["credited gain: none: 0.99", "is within noise"]),
        (MadeUpRuns(3.0, 5.0, 5.0), 3, ["credited gain: none: slower, 0.6"]),
        (MadeUpRuns(1.0, 5.0, 6.0, 5.0), 1, ["DIFFER", "none: outputs differ", "no gain is credited"]),
        (MadeUpRuns(1.0, 5.0, 6.0, 7.0), 1, ["DIFFER", "set seeds in the script"]),
    ],
)
def test_a_gain_is_credited_beyond_noise_if_outputs_agree(
    folder: Path, monkeypatch: pytest.MonkeyPatch, runs: MadeUpRuns, code: int, lines: list[str]
) -> None:
    monkeypatch.setattr(command, "run_once", runs)
    run = kernelwright("model", "sums.py", "--rounds", 2, "--warmup", 1, cwd=folder)
    assert run.returncode == code, run.stderr
    assert runs.ways[:6] == ["values", "values", "plain", "store", "store", "plain"]
    for text in (*lines, "graph breaks: 2", "sums.py:9: a reason (2 times)", "an entry is old"):
        assert text in run.stdout + run.stderr


def test_equal_code_has_no_gain(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = MadeUpRuns(1.0, 5.0, 5.0)
    runs.used = ()
    monkeypatch.setattr(command, "run_once", runs)
    run = kernelwright("model", "sums.py", "--rounds", 2, cwd=folder)
    assert run.returncode == 3 and "none: no entry of the store was used" in run.stdout


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("import torch\ntorch.ones(2)", "never calls torch.compile; compile its model"),
        ("raise SystemExit('no data')", "fails with plain torch.compile (exit code 1): no data"),
        ("import torch\nc = torch.compile(torch.sin)\nfor _ in range(3): c(torch.ones(2))", "makes 2 steps"),
    ],
)
def test_scripts_that_are_refused(folder: Path, script: str, message: str) -> None:
    (folder / "script.py").write_text(script)
    assert message in refused(kernelwright("model", "script.py", "--quiet", cwd=folder))


def test_a_script_that_is_not_there(folder: Path) -> None:
    assert "there is no script none.py" in refused(kernelwright("model", "none.py", cwd=folder))
