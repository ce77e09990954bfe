"""The tuner and the evaluator of another package, as the command line, files, Python and agents use them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import anyio
import kernelwright
import pytest
from kernelwright.core import Config, OptionError, SearchSpace
from mcp import Client

from ..cli.commands import kernelwright as called
from ..cli.commands import refused
from ..cli.tuning import journal_in, trials_in, tune, workplace
from ..mcp_server.serving import server

WHERE = ("--tuner", "last_first", "--evaluator", "next_door")


@pytest.fixture
def work(toy: Path, tmp_path: Path) -> Path:
    """Where a user of the package works."""
    return workplace(tmp_path)


def test_help_and_completion_name_them_and_import_nothing(work: Path) -> None:
    shown = " ".join(called("tune", "kernel", "--help", cwd=work).stdout.replace("│", "").split())
    assert "random, grid or last_first (of kernelwright-toy 1.0)" in shown
    assert "ray (the nodes of a Ray cluster) or next_door (of kernelwright-toy 1.0)" in shown
    assert not [name for name in sys.modules if name.startswith("kernelwright_toy")]
    for option, begun, whole in (("--tuner", "las", "last_first"), ("--evaluator", "n", "next_door")):
        words = {"COMP_WORDS": f"kernelwright tune kernel {option} {begun}", "COMP_CWORD": "4"}
        run = subprocess.run(
            [sys.executable, "-m", "kernelwright"],
            env={**os.environ, **words, "_KERNELWRIGHT_COMPLETE": "complete_bash"},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert run.stdout.split() == [whole], run.stderr
    # Of a new process: here the functions may have been described before the distribution was there.
    program = "import kernelwright; print(kernelwright.tune.__doc__)"
    described = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert "last_first (of kernelwright-toy 1.0)" in described.stdout


def test_a_search_of_the_command_line_uses_both(work: Path) -> None:
    run = tune(*WHERE, "--quick", "--json", "--no-save", cwd=work)
    assert run.returncode in (0, 3), run.stderr
    assert json.loads(run.stdout)["tuner"] == "last_first"
    journal = journal_in(work)
    assert "next door" in journal.read_text().splitlines()[0]
    trials = trials_in(journal, "search")
    assert [trial["config"]["BLOCK"] for trial in trials] == [16, 8, 4]


def test_files_and_the_environment_choose_them(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (work / "kernelwright.toml").write_text('[tune.kernel]\ntuner = "last_first"\n')
    monkeypatch.setenv("KERNELWRIGHT_EVALUATOR", "next_door")
    plan = json.loads(tune("--dry-run", "--json", cwd=work).stdout)
    assert plan["tuner"] == "last_first"
    shown = called("config", "tune", "kernel", cwd=work).stdout
    assert "tune kernel: evaluator = next_door    (KERNELWRIGHT_EVALUATOR)" in shown
    monkeypatch.setenv("KERNELWRIGHT_EVALUATOR", "next_dor")
    says = "error: there is no evaluator 'next_dor'; use one of local, modal, ray, next_door"
    assert refused(tune("--tuner", "grid", cwd=work)).endswith(says)


def test_python_uses_them(work: Path) -> None:
    space = SearchSpace.of({"A": [1, 2, 3]})
    assert kernelwright.create_tuner("last_first", space).ask(2) == [Config({"A": 3}), Config({"A": 2})]
    with pytest.raises(OptionError, match=r"there is no tuner 'first_last'; use one of portfolio, .*, last_first"):
        kernelwright.create_tuner("first_last", space)
    with kernelwright.Session(device="cpu", sandbox="none") as session:
        verdict = session.evaluate(
            str(work / "1_999.py"),
            problem=str(work / "level1" / "999_Scale.py"),
            evaluator="next_door",
            quick=True,
        )
    assert verdict.correct and verdict.evaluation.latency_ms > 0


def test_agents_learn_of_the_tuner(work: Path) -> None:
    async def asked() -> None:
        async with Client(server(work)) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            description = tools["tune"].input_schema["properties"]["tuner"]["description"]
            assert "last_first (of kernelwright-toy 1.0)" in description

    anyio.run(asked)
