"""The documentation of the server agrees with it: configurations, tools, the skill."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from kernelwright.cli.main import app

from .test_server import TOOLS

DOCS = Path(__file__).parents[2] / "docs"


def configurations() -> list[dict[str, Any]]:
    """What each agent is told to start."""
    found = []
    for language, block in re.findall(r"```(json|toml)\n(.*?)```", (DOCS / "mcp.md").read_text(), re.DOTALL):
        read = json.loads(block) if language == "json" else tomllib.loads(block)
        (servers,) = read.values()
        found.append(servers["kernelwright"])
    return found


def test_each_configuration_calls_the_command() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    options = {option for parameter in commands["mcp"].params for option in parameter.opts}
    assert len(configurations()) == 4
    for server in configurations():
        first, *given = server["args"]
        assert (server["command"], first) == ("kernelwright", "mcp")
        assert {word for word in given if word.startswith("--")} <= options


@pytest.mark.parametrize("page", ["mcp.md", "skill/SKILL.md"])
def test_every_tool_is_documented(page: str) -> None:
    table = set(re.findall(r"^\|.*?`([a-z_]+)` ", (DOCS / page).read_text(), re.MULTILINE))
    assert table >= TOOLS


def test_the_skill_has_a_front_matter() -> None:
    _, head, body = (DOCS / "skill" / "SKILL.md").read_text().split("---\n", 2)
    found = yaml.safe_load(head)
    assert set(found) == {"name", "description"}
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", found["name"]) and len(found["name"]) <= 64
    assert 0 < len(found["description"]) <= 1024
    assert len(body.splitlines()) < 60


def test_the_commands_of_the_skill_exist() -> None:
    group: Any = typer.main.get_command(app)
    for line in re.findall(r"`kernelwright (.*?)`", (DOCS / "skill" / "SKILL.md").read_text()):
        words, command = re.sub(r'"[^"]*"', "TEXT", line).split(), group
        while hasattr(command, "commands"):
            command, words = command.commands[words[0]], words[1:]
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, line
