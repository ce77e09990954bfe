"""What a target is against: PyTorch's defaults are made slower than fp32, so which one is meant decides the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kernelwright.agent.history.run import load_history
from kernelwright.commands.report import run_page
from kernelwright.core import RunRecord, read_journal
from kernelwright.core.journal import of

from ..conftest import SCALE_KERNEL
from ..evaluators.default_precision import SOURCE, pretend_gpu
from .commands import SCALE, kernelwright, refused

TARGET = 10.0
"""Between the speedup over fp32 and that over the defaults, which sleep at each call."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pretend_gpu(monkeypatch)
    (tmp_path / "level1").mkdir()
    (tmp_path / "level1" / "999_Scale.py").write_text(SOURCE)
    (tmp_path / "1_999.py").write_text(SCALE_KERNEL)
    return tmp_path


def optimize(folder: Path, *arguments: object) -> dict[str, Any]:
    common = ("--kernel", "1_999.py", *SCALE, "--target-speedup", TARGET, "--max-iterations", "1", "--json")
    run = kernelwright("optimize", *common, *arguments, cwd=folder)
    assert run.returncode in (0, 3), run.stderr
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def test_a_target_against_the_defaults(folder: Path) -> None:
    found = optimize(folder, "--against", "default")
    assert (found["against"], found["precision"], found["target_reached"]) == ("default", "fp32", True)
    assert found["stopped"] == "target of 10x reached" and found["turns"] == 0
    best = found["best"]
    assert best["speedup"] < TARGET < best["speedup_default"] and not best["default_is_reference"]
    low, high = best["interval_default"]
    assert low <= best["speedup_default"] <= high
    assert (found["faster"], found["kernel"]) == (False, None), "the start is what reaches it"

    history = load_history(folder / "results")
    assert (history.against, history.speedup) == ("default", best["speedup_default"])
    assert (run := next(of(read_journal(history.files.journal), RunRecord))) and run.against == "default"
    shown = run_page(history)
    assert f"{best['speedup_default']:.3f}" in shown and "against PyTorch&#39;s defaults reached" in shown

    again = optimize(folder, "--against", "default", "--resume")
    assert again["target_reached"] and again["best"] == best, "the run goes on with what it measured"
    for other in ((), ("--against", "strict"), ("--against", "default", "--precision", "default")):
        common = ("--kernel", "1_999.py", *SCALE, "--target-speedup", TARGET, "--resume", *other)
        said = refused(kernelwright("optimize", *common, "--quiet", cwd=folder))
        assert "is of another run" in said and ("precision" if len(other) > 2 else "against") in said


def test_a_target_against_fp32_is_not_reached_by_what_the_defaults_lose(folder: Path) -> None:
    found = optimize(folder)
    assert (found["against"], found["target_reached"]) == ("strict", False)
    assert found["best"]["speedup"] < TARGET < found["best"]["speedup_default"]


def test_the_policy_chooses_the_reference_of_every_command(folder: Path) -> None:
    found = optimize(folder, "--precision", "default")
    assert (found["against"], found["precision"], found["target_reached"]) == ("default", "default", True)
    assert found["best"]["speedup"] == found["best"]["speedup_default"] > TARGET
    command = ("evaluate", "--kernel", "1_999.py", *SCALE, "--precision", "default")
    result = json.loads(kernelwright(*command, "--json", cwd=folder).stdout)
    assert result["precision"] == "default" and result["default_is_reference"] and result["speedup"] > TARGET
    printed = kernelwright("evaluate", "--kernel", "1_999.py", *SCALE, cwd=folder).stdout
    assert "against the reference, " in printed and "against PyTorch's defaults (" in " ".join(printed.split())


def test_what_goes_together() -> None:
    said = refused(
        kernelwright("optimize", "--kernel", "1_19", "--against", "strict", "--precision", "default", cwd=Path.cwd())
    )
    assert "--against strict" in said and "--precision default" in said


def test_on_a_cpu_the_defaults_are_the_reference(kernel_file: Path) -> None:
    run = kernelwright("evaluate", "--kernel", str(kernel_file), *SCALE, cwd=kernel_file.parent)
    assert run.returncode == 0, run.stderr
    assert "which computes as PyTorch does by default" in " ".join(run.stdout.split())
