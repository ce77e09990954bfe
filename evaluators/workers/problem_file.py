"""The problem as workers load it: files, and options."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...core import ProblemError, TorchProblem
from ...core.files import write_whole
from .patched_package import ROOM, with_texts_in_place


def problem_options(problem: TorchProblem, folder: Path, *others: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with which a worker loads a problem.

    Writes to `folder` its source, and the files that it reads at its sizes and at the `others`; raises `ProblemError`
    for one that cannot be read.
    """
    path = folder / f"{problem.name}.py"
    # Replaced atomically: a worker that has just started may be reading it.
    write_whole(path, problem.source, ROOM)
    for sizes in (problem.sizes, *others):
        for name, origin in problem.files_at(sizes).items():
            _place(origin, folder / name, problem)
    package = with_texts_in_place(problem.package, folder).options if problem.package is not None else None
    return {"problem": str(path), "sizes": dict(problem.sizes), "package": package}


def _place(origin: Path, path: Path, problem: TorchProblem) -> None:
    """Link a file to where workers may read it, or copy it where that is another file system."""
    with contextlib.suppress(OSError):
        known, there = origin.stat(), path.stat()
        if (known.st_size, known.st_mtime_ns) == (there.st_size, there.st_mtime_ns):
            return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as beside:
            part = Path(beside) / path.name
            try:
                part.hardlink_to(origin.resolve())
            except OSError:
                shutil.copy2(origin, part)
            os.replace(part, path)
    except OSError as error:
        raise ProblemError(f"problem {problem.id} reads {origin}: {error.strerror}; restore it, or {ROOM}") from None
