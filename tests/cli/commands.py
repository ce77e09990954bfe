"""Commands in processes of their own, as a user calls them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCALE = ("--problem", "level1/999_Scale.py", "--device", "cpu")
"""Options for the kernel that scales rows."""


def kernelwright(*arguments: object, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kernelwright", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, input=stdin, capture_output=True, text=True, timeout=280, check=False)


def refused(run: subprocess.CompletedProcess[str]) -> str:
    """The one line that says what the user did wrong."""
    assert run.returncode == 2, run.stdout + run.stderr
    assert run.stdout == ""
    lines = run.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: "), run.stderr
    return lines[0]
