"""Commands in processes of their own, as a user calls them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from click.testing import Result

from ..beside import KERNELWRIGHT

SCALE = ("--problem", "level1/999_Scale.py", "--device", "cpu", "--sandbox", "none")
"""Options for the kernel that scales rows; without a sandbox one server is enough, and a command starts sooner."""


def kernelwright(*arguments: object, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [*KERNELWRIGHT, *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, input=stdin, capture_output=True, text=True, timeout=280, check=False)


def refused(run: subprocess.CompletedProcess[str]) -> str:
    """The one line that says what the user did wrong."""
    assert run.stdout == ""
    return _error(run.returncode, run.stderr)


def refused_here(run: Result) -> str:
    """The same of a command within this process, which may have told what it was about to do."""
    assert isinstance(run.exception, SystemExit), run.exception
    return _error(run.exit_code, run.stderr)


def _error(exit_code: int, told: str) -> str:
    assert exit_code == 2, told
    lines = told.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: "), told
    return lines[0]
