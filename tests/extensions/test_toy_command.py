"""A command of another package, one module and an entry point: every front end has it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import anyio
import kernelwright
import pytest
from kernelwright.cli.execution import interrupted
from kernelwright.core import OptionError
from kernelwright.events import Event, Step
from kernelwright.runtime.command import find_command
from mcp import Client
from typer.testing import CliRunner

from ..cli.commands import kernelwright as called
from ..cli.commands import refused
from ..mcp_server.serving import server


@pytest.fixture
def work(toy: Path, tmp_path: Path) -> Path:
    """Where a user of the package works."""
    return tmp_path


def test_the_command_line_has_it_with_help(work: Path) -> None:
    assert "stack-up" in called("--help", cwd=work).stdout
    shown = called("stack-up", "--help", cwd=work).stdout
    assert "Stack blocks." in shown and "--height" in shown and "Blocks of a stack." in shown and "--dry-run" in shown
    assert "kernelwright stack-up red --height 3" in " ".join(shown.split())
    run = called("stack-up", "red", "--height", "2", cwd=work)
    assert (run.returncode, run.stdout.splitlines()) == (0, ["stacking red", "red", "red", "2 blocks"])
    assert called("stack-up", "red", "--height", "9", cwd=work).returncode == 1


def test_json_is_the_result(work: Path) -> None:
    run = called("stack-up", "red", "--json", cwd=work)
    assert json.loads(run.stdout) == {"color": "red", "height": 3, "stands": True}


def test_a_mistake_is_one_line_before_anything_starts(work: Path) -> None:
    assert refused(called("stack-up", "red", "--height", "0", cwd=work)) == "error: --height must be at least 1, not 0"
    assert refused(called("stack-up", "", cwd=work)) == "error: there is no color; give one"


def test_a_dry_run_shows_the_plan_and_does_nothing(work: Path) -> None:
    run = called("stack-up", "red", "--dry-run", cwd=work)
    assert run.stdout.splitlines() == ["color: red", "height: 3"]
    assert json.loads(called("stack-up", "red", "--dry-run", "--json", cwd=work).stdout) == {
        "color": "red",
        "height": 3,
    }


def test_a_shell_completes_it(work: Path) -> None:
    words = {"COMP_WORDS": "kernelwright stack-up --hei", "COMP_CWORD": "2", "_KERNELWRIGHT_COMPLETE": "complete_bash"}
    run = subprocess.run(
        [sys.executable, "-m", "kernelwright"], env={**os.environ, **words}, capture_output=True, text=True, timeout=120
    )
    assert run.stdout.split() == ["--height"], run.stderr


def test_files_and_the_environment_set_its_options(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (work / "kernelwright.toml").write_text("[stack-up]\nheight = 4\n")
    assert json.loads(called("stack-up", "red", "--json", cwd=work).stdout)["height"] == 4
    monkeypatch.setenv("KERNELWRIGHT_STACK_UP_HEIGHT", "5")
    assert json.loads(called("stack-up", "red", "--json", cwd=work).stdout)["height"] == 5
    assert "stack-up: height = 5" in called("config", "stack-up", cwd=work).stdout


def test_python_has_it(work: Path) -> None:
    heard: list[Event] = []
    stack = kernelwright.stack_up
    result = stack("red", height=2, on_event=heard.append)
    assert (result.height, result.stands, result.to_json()) == (2, True, {"color": "red", "height": 2, "stands": True})
    assert heard == [Step("stacking red"), Step("stacking red", over=True)]
    assert stack.__doc__.startswith("Stack blocks.") and "height: Blocks of a stack. (default 3)" in stack.__doc__
    with pytest.raises(OptionError, match=r"`height` must be at least 1"):
        stack("red", height=0)
    with kernelwright.Session(device="cpu") as session:
        assert session.stack_up("red", height=2) == result
    with pytest.raises(AttributeError):
        _ = kernelwright.stack_down


def test_agents_have_it(work: Path) -> None:
    async def asked() -> None:
        async with Client(server(work)) as client:
            await _ask(client)

    async def _ask(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        tool = tools["stack_up"]
        assert tool.description == "Stack blocks."
        assert tool.input_schema["properties"]["height"]["minimum"] == 1
        assert set(tool.input_schema["properties"]) == {"color", "height", "seconds"}
        assert set(tool.output_schema["properties"]) == {"color", "height", "stands"}
        assert "plan" not in tools, "only commands that say so are offered"
        answer = await client.call_tool("stack_up", {"color": "red", "height": 2})
        assert answer.structured_content == {"color": "red", "height": 2, "stands": True}

    anyio.run(asked)


@pytest.mark.parametrize(("name", "resumed"), [("plan", False), ("tune", True), ("tune_gemm", True)])
def test_what_ctrl_c_says_names_resume_only_where_it_is(name: str, resumed: bool) -> None:
    command = find_command(name)
    assert command is not None and ("--resume" in interrupted(command)) == resumed


def test_the_list_of_commands_imports_none_of_them(work: Path) -> None:
    from kernelwright.cli.main import app

    assert CliRunner().invoke(app, ["--help"]).exit_code == 0
    assert "kernelwright_toy.command" not in sys.modules
