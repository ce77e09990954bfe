"""The workflows are valid, and their commands exist."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from kernelwright.cli.main import app

ROOT = Path(__file__).parents[1]
OWN, EXAMPLE = ROOT / ".github" / "workflows" / "ci.yml", ROOT / "docs" / "ci" / "kernel-check.yml"


def steps(path: Path) -> list[dict[str, Any]]:
    workflow = yaml.safe_load(path.read_text())
    assert {"name", True, "permissions", "jobs"} <= set(workflow)  # `on` is true to YAML 1.1
    (job,) = workflow["jobs"].values()
    assert job["runs-on"] and job["timeout-minutes"]
    for step in job["steps"]:
        assert ("run" in step) != ("uses" in step)
        # A tag can be moved to other code, a commit cannot.
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}|", step.get("uses", "")), step
    return list(job["steps"])


def test_our_own_runs_what_a_fresh_clone_must_pass() -> None:
    command = [step["run"] for step in steps(OWN) if "run" in step][-1]
    assert command == ".ci/run" and os.access(ROOT / command, os.X_OK)


@pytest.mark.parametrize("wanted", ["--junit", "--record"])
def test_the_example_checks_kernels_with_options_that_exist(wanted: str) -> None:
    lines = [line for step in steps(EXAMPLE) for line in step.get("run", "").splitlines()]
    (command,) = [line for line in lines if line.startswith("kernelwright ") and wanted in line]
    _, name, *words = shlex.split(command)
    context = typer.main.get_command(app).commands[name].make_context(name, words)  # type: ignore[attr-defined]
    assert context.params["files"] == ["kernels/*.py"]
    assert str(context.params["baseline_file"]) == "kernels/figures.json"
