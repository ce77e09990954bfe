"""The folder of a server: it contains every path of a call, and the runs of tools."""

from __future__ import annotations

import atexit
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..core import OptionError, ResultsError
from ..core.file_locks import is_abandoned, try_lock
from ..core.files import write_whole
from ..runtime.jobs import named_problem

SEPARATOR = "::"
RECORD = "run.json"
PAGE = "report.html"
RUNNING, FINISHED, ENDED = "running", "finished", "ended early"


class Root:
    """The folder of the server. All methods raise `OptionError` for paths outside of it, with links resolved."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    def path(self, text: str, name: str) -> Path:
        """The resolved path of a text, relative to the folder; `name` is the argument's, for the message."""
        try:
            path = (self.folder / text).resolve()
        except (OSError, ValueError, RuntimeError):  # too long, a null byte, a circle of links
            raise OptionError(f"`{name}` {text!r} is not a path") from None
        if not path.is_relative_to(self.folder):
            raise OptionError(f"`{name}` {text} is outside of {self.folder}", "the server works in that folder only")
        return path

    def file(self, text: str, name: str) -> Path:
        """Return the path of an existing file."""
        path = self.path(text, name)
        if not path.is_file():
            raise OptionError(f"`{name}`: there is no file {text} in {self.folder}")
        return path

    def directory(self, text: str, name: str) -> Path:
        """Return the path of an existing folder."""
        path = self.path(text, name)
        if not path.is_dir():
            raise OptionError(f"`{name}`: there is no folder {text} in {self.folder}")
        return path

    def reference(self, text: str, name: str) -> str:
        """Return a kernel or a problem: the absolute path of a file or function, or the name of a shipped one.

        Such a name cannot become a file: jobs run in an empty folder.
        """
        where, mark, function = text.partition(SEPARATOR)
        if mark:
            return f"{self.file(where, name)}{SEPARATOR}{function}"
        path = self.folder / text
        is_path = Path(text).is_absolute() or ".." in Path(text).parts
        if is_path or (os.path.lexists(path) and not path.is_dir()):
            return str(self.file(text, name))
        return text

    def target(self, text: str, name: str) -> str:
        """Return a function `FILE::NAME`, or a file, such as a file of shapes."""
        where, mark, function = text.partition(SEPARATOR)
        return f"{self.file(where, name)}{mark}{function}"

    def problem_of(self, kernel: str, given: str | None) -> str | None:
        """Return the problem of a kernel that `reference` returned; None if the kernel decides.

        A kernel file may name its problem by a path, which is confined too.
        """
        if given is not None:
            return self.reference(given, "problem")
        if SEPARATOR in kernel or not Path(kernel).is_absolute():
            return None
        named = named_problem(Path(kernel))
        return None if named is None else self.reference(named, "problem")

    def check_kernels(self, folder: Path) -> None:
        """Each Python file below a folder, and the problem that it names, are inside too."""
        for path in folder.rglob("*.py"):
            self.problem_of(self.reference(str(path), "folder"), None)

    def shown(self, path: Path | str) -> str:
        """A path inside, relative to the folder."""
        return str(Path(path).resolve().relative_to(self.folder))


class StoredRun(BaseModel):
    """A run, as `run.json` in its folder has it."""

    model_config = ConfigDict(extra="forbid")

    run: str
    tool: str
    kernel: str
    """The name used in the call."""
    began: str
    """UTC, as ISO 8601."""
    state: str = RUNNING
    server: str = ""
    """Name of the file in the folder of all runs that the server has locked while it lives."""
    result: dict[str, Any] = Field(default_factory=dict)
    """The reply of the tool; empty unless it finished."""


@dataclass(frozen=True)
class Run:
    """The folder of a run."""

    folder: Path
    record: StoredRun

    @property
    def id(self) -> str:
        """The run's name in URIs."""
        return self.record.run

    @property
    def saved_kernel(self) -> str | None:
        """File of the faster kernel, as the result names it; None if there is none, or if the run has not ended."""
        found = self.record.result
        return found.get("saved_kernel", found.get("kernel")) or None

    def end(self, state: str, result: dict[str, Any] | None = None) -> None:
        """Record how the run ended. A run without files is removed."""
        if state != FINISHED and [path.name for path in self.folder.iterdir()] == [RECORD]:
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        self.write(self.record.model_copy(update={"state": state, "result": result or {}}))

    def write(self, record: StoredRun) -> None:
        """Replace the record."""
        write_whole(self.folder / RECORD, record.model_dump_json(indent=1) + "\n")


class Runs:
    """All runs of a server's folder, including those of earlier servers."""

    def __init__(self, root: Root, folder: Path) -> None:
        self._root = root
        self._folder = root.folder / folder
        self._lock: BinaryIO | None = None

    def begin(self, tool: str, kernel: str) -> Run:
        """Start a run. Raises `ResultsError` if its folder cannot be created."""
        place = self._root.path(str(self._folder), "results")  # it may have become a link
        stem = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(kernel.partition("::")[0]).stem)[:40] or "kernel"
        number = 1 + sum(1 for _ in place.glob(f"{tool}-{stem}-*"))
        try:
            place.mkdir(parents=True, exist_ok=True)
            for lock in place.glob(".server-*"):
                if is_abandoned(lock):
                    lock.unlink(missing_ok=True)
            if self._lock is None or not Path(self._lock.name).exists():
                self._lock = (place / f".server-{secrets.token_hex(8)}").open("wb")
                try_lock(self._lock.fileno())
                atexit.register(Path(self._lock.name).unlink, missing_ok=True)
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
        server = Path(self._lock.name).name
        run = Run(folder, StoredRun(run=folder.name, tool=tool, kernel=kernel, began=began, server=server))
        run.write(run.record)
        return run

    def all(self) -> Iterator[Run]:
        """The runs with a readable record, the latest first."""
        found = [run for path in self._folder.glob(f"*/{RECORD}") if (run := self._read(path)) is not None]
        yield from sorted(found, key=lambda run: (run.record.began, run.id), reverse=True)

    def find(self, run: str) -> Run:
        """Return a run by its id. Raises `ResultsError` if there is none."""
        known = {item.id: item for item in self.all()}
        if run not in known:
            raise ResultsError(f"there is no run {run!r}; kernelwright://runs lists all")
        return known[run]

    def journal(self, run: Run) -> Path:
        """Return the trials of a run. Raises `ResultsError` if there are none."""
        named = run.record.result.get("journal")
        if named:
            return self._root.file(named, "journal")
        found = [path for path in run.folder.rglob("journal*.jsonl") if "_tune_" not in path.name]
        if not found:
            raise ResultsError(f"run {run.id} has no trial yet")
        return self._root.file(str(found[0]), "journal")

    def kernel(self, run: Run) -> Path:
        """Return the faster kernel of a run. Raises `ResultsError` if there is none."""
        named = run.saved_kernel
        if named is None:
            raise ResultsError(f"run {run.id} saved no kernel: nothing was faster beyond noise")
        return self._root.file(named, "kernel")

    def _read(self, path: Path) -> Run | None:
        try:
            record = StoredRun.model_validate_json(self._root.file(str(path), "run").read_bytes())
        except (OSError, ValidationError, OptionError):  # unreadable, of a later version, a link to outside
            return None
        if record.state == RUNNING and self._is_dead(record.server):
            record = record.model_copy(update={"state": ENDED})
        return Run(path.parent, record) if record.run == path.parent.name else None

    def _is_dead(self, server: str) -> bool:
        """Return whether the server of a run has ended, so that the run has too."""
        if self._lock is not None and Path(self._lock.name).name == server:
            return False
        lock = self._folder / Path(server).name
        return not server or not lock.exists() or is_abandoned(lock)


def resource_links(run: str) -> dict[str, str]:
    """Return the addresses of a run's resources, by kind."""
    return {kind: f"kernelwright://runs/{run}/{kind}" for kind in ("report", "history", "kernel", "result")}
