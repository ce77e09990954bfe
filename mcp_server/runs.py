"""The runs that tools made: a folder each, with what the resources of the run show."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..core import OptionError, ResultsError
from ..core.files import write_whole
from .places import Root

RECORD = "run.json"
PAGE = "report.html"
RUNNING, FINISHED, ENDED = "running", "finished", "ended early"


class StoredRun(BaseModel):
    """A run, as `run.json` in its folder has it."""

    model_config = ConfigDict(extra="forbid")

    run: str
    tool: str
    kernel: str
    """As it was named in the call."""
    began: str
    """UTC, as ISO 8601."""
    state: str = RUNNING
    result: dict[str, Any] = Field(default_factory=dict)
    """What the tool returned; empty unless it finished."""


@dataclass(frozen=True)
class Run:
    """The folder of a run."""

    folder: Path
    record: StoredRun

    @property
    def id(self) -> str:
        """Its name in addresses."""
        return self.record.run

    def end(self, state: str, result: dict[str, Any] | None = None) -> None:
        """Write down how it ended; one that left nothing is removed."""
        if state != FINISHED and [path.name for path in self.folder.iterdir()] == [RECORD]:
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        self.write(self.record.model_copy(update={"state": state, "result": result or {}}))

    def write(self, record: StoredRun) -> None:
        """Replace the record."""
        write_whole(self.folder / RECORD, record.model_dump_json(indent=1) + "\n")


class Runs:
    """All runs of a server's folder, also those of earlier servers."""

    def __init__(self, root: Root, folder: Path) -> None:
        self._root = root
        self._folder = root.folder / folder

    def begin(self, tool: str, kernel: str) -> Run:
        """A new run; raises `ResultsError` where its folder cannot be made."""
        place = self._root.path(str(self._folder), "results")  # it may have become a link
        stem = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(kernel.partition("::")[0]).stem)[:40] or "kernel"
        number = 1 + sum(1 for _ in place.glob(f"{tool}-{stem}-*"))
        try:
            place.mkdir(parents=True, exist_ok=True)
            while True:
                folder = place / f"{tool}-{stem}-{number}"
                try:
                    folder.mkdir()
                    break
                except FileExistsError:
                    number += 1
        except OSError as error:
            raise ResultsError(f"cannot write results folder {place}: {error.strerror}; choose another one") from None
        began = datetime.now(UTC).isoformat(timespec="seconds")
        run = Run(folder, StoredRun(run=folder.name, tool=tool, kernel=kernel, began=began))
        run.write(run.record)
        return run

    def all(self) -> Iterator[Run]:
        """The runs with a readable record, the latest first."""
        found = [run for path in self._folder.glob(f"*/{RECORD}") if (run := self._read(path)) is not None]
        yield from sorted(found, key=lambda run: (run.record.began, run.id), reverse=True)

    def find(self, run: str) -> Run:
        """The run of an id; raises `ResultsError` where there is none."""
        known = {item.id: item for item in self.all()}
        if run not in known:
            raise ResultsError(f"there is no run {run!r}; kernelwright://runs lists all")
        return known[run]

    def journal(self, run: Run) -> Path:
        """Its trials; raises `ResultsError` where there are none."""
        named = run.record.result.get("journal")
        if named:
            return self._root.file(named, "journal")
        found = [path for path in run.folder.rglob("journal*.jsonl") if "_tune_" not in path.name]
        if not found:
            raise ResultsError(f"run {run.id} has no trial yet")
        return self._root.file(str(found[0]), "journal")

    def kernel(self, run: Run) -> Path:
        """Its faster kernel; raises `ResultsError` where it found none."""
        named = run.record.result.get("saved_kernel")
        if not named:
            raise ResultsError(f"run {run.id} saved no kernel: nothing was faster beyond noise")
        return self._root.file(named, "kernel")

    def _read(self, path: Path) -> Run | None:
        try:
            record = StoredRun.model_validate_json(self._root.file(str(path), "run").read_bytes())
        except (OSError, ValidationError, OptionError):  # unreadable, of a later version, a link to outside
            return None
        return Run(path.parent, record) if record.run == path.parent.name else None
