"""The problem as workers load it: a file, and options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...core import TorchProblem
from ...core.files import write_whole

ROOM = "make room there, or set TMPDIR to another folder"


def problem_options(problem: TorchProblem, folder: Path) -> dict[str, Any]:
    """What a worker must know to load a problem; its source is written to `folder`."""
    path = folder / f"{problem.name}.py"
    # Replaced whole: a worker that was started a moment ago may be reading it.
    write_whole(path, problem.source, ROOM)
    return {"problem": str(path), "sizes": dict(problem.sizes)}
