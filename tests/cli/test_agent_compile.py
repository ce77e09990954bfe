"""`kernelwright agent compile`: from a recorded run to a program that `optimize --program` follows."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import Result
from kernelwright.cli.main import app
from typer.testing import CliRunner

from ..agent.conversations.telling import READY, analysis, submit
from ..agent.history.recorded import copied, recorded_here
from ..conftest import SCALE_KERNEL, SCALE_PROBLEM
from ..openai_server import JSON, KEY, OpenAIServer, Step, Text
from .commands import SCALE, kernelwright, refused_here

LESSON = "Take larger blocks."
FASTER = SCALE_KERNEL.replace("BLOCK = 8", "BLOCK = 16")
WRONG = SCALE_KERNEL.replace("* W[j]", "+ W[j]")


def compile_here(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["agent", "compile", *map(str, arguments)])


def answer(body: JSON) -> Step:
    """Suggests what goes wrong, until its instructions hold the lesson."""
    if len(body["messages"]) == 1:
        return READY
    system, user = (str(message["content"]) for message in body["messages"][:2])
    if "You improve the instructions" in system:
        present = re.search(r"## present ## \]\]\n(.*?)\n\n\[\[ ## pages", user, re.DOTALL)
        assert present is not None
        return Text(f"[[ ## new_instructions ## ]]\n{present[1]}\n{LESSON}")
    if "You find what limits" in system:
        idea = "larger blocks" if LESSON in system else "addition"
        return analysis("memory", ["far from the copy's bandwidth"], (idea, "BLOCK", "it is cheaper", 1.5))
    return submit(FASTER if "larger blocks" in user else WRONG, "as suggested", "It should be faster.")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a kernel, its problem, and a run of `optimize` that the rules made."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "level1").mkdir()
    (folder / "level1" / "999_Scale.py").write_text(SCALE_PROBLEM)
    (folder / "1_999.py").write_text(SCALE_KERNEL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNELWRIGHT_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
        run = kernelwright(
            *("optimize", "--kernel", "1_999.py", *SCALE, "--model", "rules", "--max-iterations", 1),
            *("--target-speedup", 1e-9, "--no-save", "--quiet"), cwd=folder,
        )  # fmt: skip
    assert run.returncode in (0, 3), run.stderr  # 3: nothing faster was found
    return folder


@pytest.fixture
def folder(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(recorded, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return tmp_path


def options(server: OpenAIServer, *more: object) -> Sequence[object]:
    model = ("--model", "openai/gpt-4o", "--api-base", server.base_url)
    return ("results", "--device", "cpu", "--problem", "level1/999_Scale.py", *model, "--json", *more)


def test_a_program_is_compiled_and_followed_and_nothing_is_paid_twice(folder: Path) -> None:
    with OpenAIServer([answer] * 100) as server:
        run = compile_here(*options(server, "--max-evaluations", 3))
        assert run.exit_code == 0, run.output
        asked = [request.body for request in server.requests]
        again = compile_here(*options(server, "--max-evaluations", 3, "--resume"))
        # The check of the model is repeated, and nothing else.
        assert [request.body for request in server.requests[len(asked) :]] == asked[:1]
        assert server.errors == []
    summary = json.loads(run.stdout)
    assert json.loads(again.stdout) | {"tokens": 0, "dollars": 0} == summary | {"tokens": 0, "dollars": 0}
    assert summary["scores"][0] == 0.0
    assert max(summary["scores"]) > 0.3
    assert "a single situation is used" in run.stderr
    assert "GEPA" not in run.output  # its bars
    saved = json.loads((folder / "program.json").read_text())
    assert saved["scores"] == summary["scores"]
    assert KEY not in "".join(path.read_text() for path in folder.rglob("*.json*"))
    followed = kernelwright(
        *("optimize", "--kernel", "1_999.py", *SCALE, "--program", "program.json", "--target-speedup", 1e9),
        *("--model", "files:chat", "--no-wait", "--results", "other", "--quiet"), cwd=folder,
    )  # fmt: skip
    assert followed.returncode == 75, followed.stderr
    (prompt,) = (folder / "chat").glob("*.prompt.md")
    assert LESSON in prompt.read_text()


def test_a_person_can_be_the_model(folder: Path) -> None:
    run = compile_here(
        "results", "--device", "cpu", "--problem", "level1/999_Scale.py", "--model", "files:chat", "--no-wait"
    )
    assert run.exit_code == 75, run.output
    assert "0001.reply.md" in run.stderr
    assert "You find what limits a tilelang kernel" in (folder / "chat" / "0001.prompt.md").read_text()
    assert not (folder / "program.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("results",), "set OPENAI_API_KEY, or name one"),
        (("results", "--model", "rules"), "instructions are for language models"),
        (("results", "--model", "openai/o3", "--reflection-model", "rules"), "instructions are for language models"),
        (("results", "--model", "gpt"), "is not a model"),
        (("results", "--model", "openai/o3", "--max-cost", 0), "--max-cost must be above 0, not 0; give more"),
        (("results", "--model", "openai/o3", "--max-evaluations", 0), "--max-evaluations must be above 0, not 0"),
        (("results", "--model", "openai/o3", "--time-limit", -1), "--time-limit must be above 0, not -1"),
        (("results", "--model", "openai/o3", "--output", "results"), "--output results is a folder"),
        (("nowhere", "--model", "openai/o3"), "there is no nowhere"),
        (("empty", "--model", "openai/o3"), "no journals in empty"),
        (("results", "--model", "openai/o3", "--problem", "nofile.py"), "no problem 'nofile.py'"),
        (("results", "--model", "openai/o3", "--device", "abacus"), "no device 'abacus'"),
    ],
)
def test_a_mistake_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: Sequence[object], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    copied(tmp_path / "results" / "multiturn_logs")
    (tmp_path / "empty").mkdir()
    assert message in refused_here(compile_here(*arguments))


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return recorded_here(tmp_path, monkeypatch)


def test_an_output_that_cannot_be_written_is_reported_before_any_work(elsewhere: Path) -> None:
    Path("file").write_text("")
    run = compile_here("results", "--device", "cpu", "--model", "openai/o3", "--output", "file/program.json")
    assert "cannot write file/program.json" in refused_here(run)


def test_a_corrupt_journal_is_left_out_with_a_message(elsewhere: Path) -> None:
    elsewhere.write_text("no journal\n" + elsewhere.read_text())
    run = compile_here("results", "--device", "cpu", "--model", "openai/o3")
    assert run.exit_code == 2
    assert "line 1 is corrupt" in run.stdout
    assert run.stderr.startswith("error: no recorded situations to train on")
