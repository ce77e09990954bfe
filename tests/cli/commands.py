"""Commands as a user calls them."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

from click.testing import Result
from kernelwright.cli.main import app
from typer.testing import CliRunner

from ..surroundings import KERNELWRIGHT

SCALE = ("--problem", "level1/999_Scale.py", "--device", "cpu", "--sandbox", "none")
"""Options for the kernel that scales rows; without a sandbox one server is enough, and a command starts sooner."""


def kernelwright(*arguments: object, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """A command within this process, whose imports it shares; what it raises is a failure of the test's."""
    command = list(map(str, arguments))
    with contextlib.chdir(cwd):
        run = CliRunner().invoke(app, command, input=stdin)
    if run.exception is not None and not isinstance(run.exception, SystemExit):
        raise run.exception
    return subprocess.CompletedProcess(command, run.exit_code, run.stdout, run.stderr)


def process(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own."""
    command = [*KERNELWRIGHT, *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=280, check=False)


def refused(run: subprocess.CompletedProcess[str]) -> str:
    """The one line that says what the user did wrong."""
    assert run.stdout == ""
    return _error(run.returncode, run.stderr)


def refused_here(run: Result) -> str:
    """The same of a command within this process, which may have told what it was about to do."""
    assert isinstance(run.exception, SystemExit), run.exception
    return _error(run.exit_code, run.stderr)


def _error(exit_code: int, printed: str) -> str:
    assert exit_code == 2, printed
    lines = printed.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: "), printed
    return lines[0]
