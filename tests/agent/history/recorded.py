"""A run of `optimize` on the shipped RMS normalization, as it was recorded: two turns, a repair, two tools.

Compilers, clocks and DSPy were real; the replies came from a script, and the prompts in the transcript are shortened.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

RUN = Path(__file__).parent / "data" / "rmsnorm"
JOURNAL = "journal_36_RMSNorm__tilelang_cpu.jsonl"
TRANSCRIPT = "transcript_36_RMSNorm__tilelang_cpu.jsonl"
SEARCH = "journal_36_RMSNorm__tilelang_cpu_tune_540debcd47986cd3.jsonl"

Record = dict[str, Any]
Change = Callable[[list[Record]], list[Record]]


def copied(folder: Path, name: str = JOURNAL, change: Change = lambda records: records) -> Path:
    """The journal of a copy of the run in `folder`, with the records of one of its files changed."""
    shutil.copytree(RUN, folder, dirs_exist_ok=True)
    path = folder / name
    records = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(record) + "\n" for record in change(records)))
    return folder / JOURNAL


def recorded_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a folder with the results of the run, as recorded on this device as far as `compile_program` knows."""
    monkeypatch.chdir(tmp_path)
    path = copied(tmp_path / "results" / "multiturn_logs")
    device = next(json.loads(line)["device"] for line in path.read_text().splitlines() if '"run"' in line)
    monkeypatch.setattr("kernelwright.commands.agent.compile.device_label", lambda _: device)
    return path


def each(change: Callable[[Record], None], kind: str) -> Change:
    """Changes every record of a kind."""

    def changed(records: list[Record]) -> list[Record]:
        for record in records:
            if record["kind"] == kind:
                change(record)
        return records

    return changed
