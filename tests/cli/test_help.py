"""Help with examples, the version, completion."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kernelwright as package
import pytest
import typer
from kernelwright.cli.main import app
from typer.testing import CliRunner

ROOT = typer.main.get_command(app)


def everything(command: Any = ROOT, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and group, by path."""
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from everything(child, (*path, name))


def examples(text: str) -> list[list[str]]:
    """The commands of the block of examples, as a shell reads them."""
    block = re.search(r"^ ?Examples:\s*\n((?:[ ]+\S.*\n)+)", text, re.MULTILINE)
    assert block, text
    return [shlex.split(line) for line in re.sub(r"\\\s*\n", " ", block[1]).splitlines()]


COMMANDS = dict(everything())


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: " ".join(path) or "root")
def test_the_help_of_every_command_has_examples_that_its_parser_takes(
    path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    run = CliRunner().invoke(app, [*path, "--help"])
    assert run.exit_code == 0
    assert max(map(len, run.stdout.splitlines())) <= 80
    found = examples(run.stdout)
    for program, *words in found:
        assert program == "kernelwright"
        command: Any = ROOT
        named = []
        while hasattr(command, "commands"):
            named.append(words.pop(0))
            command = command.commands[named[-1]]
        command.make_context(" ".join(named), words)
    own = [words[1 : 1 + len(path)] == list(path) for words in found]
    assert own[0], "the first example is one of this command"


def test_short_forms_of_help() -> None:
    for command in ((), ("evaluate",), ("tune", "kernel")):
        assert CliRunner().invoke(app, [*command, "-h"]).stdout == CliRunner().invoke(app, [*command, "--help"]).stdout


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version(flag: str) -> None:
    run = CliRunner().invoke(app, [flag])
    assert (run.exit_code, run.stdout) == (0, f"kernelwright {package.__version__}\n")


def test_completion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script for a shell, and what it gets from the program."""
    monkeypatch.setenv(
        "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1"
    )  # which shell runs the tests is its own matter
    monkeypatch.setenv("HOME", str(tmp_path))
    shown = CliRunner().invoke(app, ["--show-completion", "bash"], prog_name="kernelwright")
    assert "_KERNELWRIGHT_COMPLETE=complete_bash" in shown.stdout
    made = CliRunner().invoke(app, ["--install-completion", "bash"], prog_name="kernelwright")
    assert made.exit_code == 0 and "kernelwright.sh" in (tmp_path / ".bashrc").read_text()
    command = [sys.executable, "-c", "from kernelwright.cli.main import app; app(prog_name='kernelwright')"]
    asked = {"_KERNELWRIGHT_COMPLETE": "complete_bash", "COMP_WORDS": "kernelwright check --jun", "COMP_CWORD": "2"}
    run = subprocess.run(command, env={**os.environ, **asked}, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["--junit"]
