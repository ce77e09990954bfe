"""A small kernel to tune, the command that does it, and what it leaves."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from ..conftest import SCALE_KERNEL, SCALE_PROBLEM
from .commands import SCALE, kernelwright

SPACE = ("--param", "BLOCK=0,4,16")
"""The compiler refuses a block of 0 rows."""


def tune(*arguments: object, cwd: Path, kernel: str = "1_999.py") -> subprocess.CompletedProcess[str]:
    return kernelwright("tune", "kernel", kernel, *SCALE, *arguments, cwd=cwd)


def workplace(folder: Path) -> Path:
    """The scale kernel and its problem, as a user would have them."""
    (folder / "level1").mkdir(parents=True, exist_ok=True)
    (folder / "level1" / "999_Scale.py").write_text(SCALE_PROBLEM)
    (folder / "1_999.py").write_text(SCALE_KERNEL)
    return folder


def journal_in(folder: Path) -> Path:
    (path,) = (folder / "results" / "tuning").rglob("journal.jsonl")
    return path


def trials_in(journal: Path, origin: str) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in journal.read_text().splitlines()]
    return [r["evaluation"] for r in records if r["kind"] == "trial" and r["origin"] == origin]


Finished = tuple[Path, subprocess.CompletedProcess[str]]
