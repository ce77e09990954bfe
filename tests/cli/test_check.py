"""`kernelwright check` end to end: real kernels, a file of figures, JUnit XML, a summary."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from kernelwright.cli.main import app
from kernelwright.commands import _check as check
from typer.testing import CliRunner

from ..conftest import SCALE_KERNEL
from .commands import kernelwright, refused, refused_here

CHECK = ("--workload", "tiny", "--device", "cpu", "--sandbox", "none")
FIGURES = ("--baseline-file", "figures.json")


def test_figures_are_recorded_and_kernels_compared_with_them(
    kernel_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "RUNS", 1)
    here = kernel_file.parent
    named = '"""\nProblem Name: level1/999_Scale.py\n\nEach'
    (here / "good.py").write_text(SCALE_KERNEL.replace('"""Each', named, 1))
    (here / "bad.py").write_text(SCALE_KERNEL.replace('"""Each', named, 1).replace("* W[j]", "+ W[j]"))
    recorded = kernelwright("check", "good.py", *CHECK, *FIGURES, "--record", cwd=here)
    assert recorded.returncode == 0, recorded.stderr
    assert "good.py: recorded" in recorded.stdout

    # As if it had been a hundred times as fast when its figure was stored.
    content = json.loads((here / "figures.json").read_text())
    (entry,) = content["entries"]
    assert entry["kernel"] == "good.py" and entry["environment"]["torch"] and entry["device"]
    entry["speedup"] = {name: 100 * value for name, value in entry["speedup"].items()}
    (here / "figures.json").write_text(json.dumps(content))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(here / "step.md"))
    (here / "step.md").write_text("before\n")
    arguments = ("good.py", "bad.py", *CHECK, *FIGURES, "--junit", "out/check.xml", "--summary", "check.md", "--json")
    run = kernelwright("check", *arguments, cwd=here)
    assert run.returncode == 1, run.stderr
    found = json.loads(run.stdout)
    assert [kernel["verdict"] for kernel in found["kernels"]] == ["slower", "wrong"]
    assert found["failed"] == ["good.py", "bad.py"]
    assert found["kernels"][0]["stored"]["ratio"] == entry["speedup"]["ratio"]
    assert "[1/2] bad.py: wrong; wrong value" in run.stderr
    cases = ElementTree.parse(here / "out" / "check.xml").getroot().iter("testcase")
    assert [case.find("failure").get("type") for case in cases] == ["slower", "wrong"]  # type: ignore[union-attr]
    assert "0 of 2 kernels passed" in (here / "check.md").read_text()
    assert (here / "step.md").read_text() == "before\n" + (here / "check.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("1_19", *FIGURES), "write it with --record"),
        (("1_19", "--record"), "--record needs a file to write; give --baseline-file"),
        (("1_19", "1_21", "--problem", "1_19"), "--problem names one problem"),
        (("1_19", "--tolerance", "-1"), "--tolerance must be from 0 to 0.9, not -1"),
        (("1_19", "no_such.py"), "no_such.py: no such file"),
        (("ops.py::swiglu",), "ops.py::swiglu is a function"),
        (("1_19", "--junit", "."), "--junit . is a folder"),
    ],
)
def test_usage(arguments: tuple[str, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert says in refused_here(CliRunner().invoke(app, ["check", *arguments, "--device", "cpu"]))
    assert list(tmp_path.iterdir()) == []


def test_a_kernel_whose_problem_is_nowhere_is_one_line_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SCALE_KERNEL)
    assert "mine.py" in refused(kernelwright("check", "1_19", "mine.py", "--device", "cpu", cwd=tmp_path))
