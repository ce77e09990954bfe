"""The workflows are valid, and their commands exist."""

from __future__ import annotations

import os
import re
import shlex
import tomllib
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


def test_hooks_run_what_a_fresh_clone_must_pass() -> None:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    entries = {hook["stages"][0]: hook["entry"] for hook in repository["hooks"]}
    assert entries == {"pre-commit": "make lint", "pre-push": "make check"}
    assert (ROOT / ".ci" / "run").read_text().rstrip().endswith("make check")
    rules = dict(re.findall(r"^([\w-]+):(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert rules["check"].split() == ["lint", "test-all"] and "lint" in rules


def test_fragments_of_the_changelog_have_a_known_kind() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]
    kinds = {kind["directory"] for kind in settings["type"]}
    assert settings["start_string"] in (ROOT / settings["filename"]).read_text()
    for path in (ROOT / settings["directory"]).iterdir():
        if path.name not in settings["ignore"]:
            assert path.name.split(".")[1:-1] == [min(kinds & set(path.name.split(".")), default="")], path.name
            assert path.suffix == ".md" and path.read_text().strip().endswith("."), path.name


@pytest.mark.parametrize("wanted", ["--junit", "--record"])
def test_the_example_checks_kernels_with_options_that_exist(wanted: str) -> None:
    lines = [line for step in steps(EXAMPLE) for line in step.get("run", "").splitlines()]
    (command,) = [line for line in lines if line.startswith("kernelwright ") and wanted in line]
    _, name, *words = shlex.split(command)
    context = typer.main.get_command(app).commands[name].make_context(name, words)  # type: ignore[attr-defined]
    assert context.params["files"] == ["kernels/*.py"]
    assert str(context.params["baseline_file"]) == "kernels/figures.json"
