"""The problem as workers load it: a file, and options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...core import TorchProblem
from ...core.files import write_whole

ROOM = "make room there, or set TMPDIR to another folder"


def problem_options(problem: TorchProblem, folder: Path) -> dict[str, Any]:
    """Return the options with which a worker loads a problem; writes its source to `folder`."""
    path = folder / f"{problem.name}.py"
    # Replaced atomically: a worker that has just started may be reading it.
    write_whole(path, problem.source, ROOM)
    return {"problem": str(path), "sizes": dict(problem.sizes)}
