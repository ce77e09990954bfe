"""Figures of kernels that a later run is compared with: a JSON file that is kept in version control.

There is one entry per kernel, device, sizes and way of timing. A writer replaces only its own entries, and keeps
everything else, including unknown fields.
"""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..core import Evaluation, Speedup
from ..core.errors import OptionError
from ..core.files import cache_folder
from ..core.keyed_store import KeyedStore
from ..core.text import digest_of
from .devices import device_label
from .jobs import Job

SCHEMA = 1
OF_THE_REFERENCE = ("torch", "threads")
"""Keys of the environment that the reference's time, and so the ratio, depends on."""

_Entries = dict[tuple[str, ...], dict[str, Any]]
"""Figures in the file, by the values of `FigureKey`'s fields."""


class FigureKey(BaseModel):
    """The key of a figure."""

    model_config = ConfigDict(frozen=True)

    kernel: str
    """Path of the kernel relative to the file's folder, or 'backend/id' for a shipped one."""
    device: str
    """'NVIDIA H200', or a processor's name with its cores."""
    workload: str
    sizes: str
    precision: str
    graph: bool


class Figure(FigureKey):
    """A measured figure of a kernel. Unknown fields are kept."""

    model_config = ConfigDict(frozen=True, extra="allow")

    problem_digest: str
    kernel_digest: str
    speedup: Speedup
    """Speedup over the reference of the same run: median of all runs, and the union of their intervals."""
    runs: int = Field(ge=1)
    latency_ms: float = Field(gt=0)
    reference_ms: float = Field(gt=0)
    recorded: str
    """The day, as 2026-11-23."""
    environment: dict[str, str]
    """Device and versions."""

    def why_incomparable(self, job: Job, found: Evaluation) -> str:
        """Return the reason why today's ratio is not comparable; '' if it is."""
        if self.problem_digest != job.problem.digest:
            return f"its problem has changed since {self.recorded}: record it again"
        for name in OF_THE_REFERENCE:
            then, now = self.environment.get(name), found.environment.get(name)
            if then != now:
                return f"the reference ran with {name} {then}, and {now} now: record it again"
        return ""


class StoredFigures:
    """The figures of a file. A missing file is empty."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # The lock is outside of the file's folder, which may be under version control.
        lock = cache_folder() / "locks" / f"figures-{digest_of(str(path.resolve()))}.lock"
        self._store = KeyedStore(path, self._parsed, _document, "choose another `baseline_file`", lock)
        self._entries = self._read()

    def find(self, key: FigureKey) -> Figure | None:
        """Return the figure of a kernel on a device. Raises `OptionError` for an invalid entry."""
        entry = self._entries.get(_values_of(key.model_dump()))
        if entry is None:
            return None
        try:
            return Figure.model_validate(entry)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            message = f"{self.path}: the entry of {key.kernel} on {key.device}: {where}: {first['msg']}"
            raise OptionError(message, "write it again with `record`") from None

    def devices_of(self, kernel: str) -> list[str]:
        """The devices with a figure of a kernel."""
        return sorted({str(entry.get("device")) for entry in self._entries.values() if entry.get("kernel") == kernel})

    def put(self, figure: Figure) -> None:
        """Add or replace a figure, and keep concurrent changes of others. Raises `ResultsError` if that fails."""
        entry = figure.model_dump(mode="json")
        self._read()  # reports errors in the file
        self._entries = self._store.update({_values_of(entry): entry})

    def _read(self) -> _Entries:
        try:
            return self._store.read()
        except (OSError, ValueError) as error:
            raise OptionError(f"cannot read `baseline_file` {self.path}: {error}") from None

    def _parsed(self, content: Any) -> _Entries:
        entries = content.get("entries") if isinstance(content, dict) else None
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise OptionError(f"`baseline_file` {self.path} holds no figures", "write one with `record`")
        if content.get("schema") != SCHEMA:
            message = f"`baseline_file` {self.path} has schema {content.get('schema')}, and this version reads {SCHEMA}"
            raise OptionError(message, "use the kernelwright that wrote it, or write it again with `record`")
        return {_values_of(entry): entry for entry in entries}


def _document(entries: _Entries, before: dict[str, Any]) -> dict[str, Any]:
    def place(entry: dict[str, Any]) -> list[str]:
        return [str(entry.get(name)) for name in ("kernel", "device", "workload")]

    return {**before, "schema": SCHEMA, "entries": sorted(entries.values(), key=place)}


def _values_of(entry: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(repr(entry.get(name)) for name in FigureKey.model_fields)


def key_of(job: Job, path: Path | None) -> FigureKey:
    """Return the key of a kernel's figure, with its path relative to the file's folder, for any checkout."""
    file, folder = Path(job.reference), (path or Path("here")).resolve().parent
    name = f"{job.backend}/{job.problem.id}"
    if file.is_file():
        whole = file.resolve()
        name = whole.relative_to(folder).as_posix() if whole.is_relative_to(folder) else file.as_posix()
    return FigureKey(
        kernel=name,
        device=device_label(job.device),
        workload=job.problem.workload,
        sizes=job.problem.sizes_key,
        precision=job.precision.value,
        graph=job.conditions.graph,
    )


def figure_of(key: FigureKey, job: Job, found: Sequence[Evaluation]) -> Figure:
    """Return the figure to store for timed evaluations, one per run."""
    speedups = [item.speedup for item in found if item.speedup is not None]
    return Figure(
        **key.model_dump(),
        problem_digest=job.problem.digest,
        kernel_digest=job.kernel.digest,
        speedup=Speedup.spanning(speedups),
        runs=len(speedups),
        latency_ms=statistics.median(item.measurement.median_ms for item in found if item.measurement),
        reference_ms=statistics.median(item.reference.median_ms for item in found if item.reference),
        recorded=datetime.datetime.now(datetime.UTC).date().isoformat(),
        environment=found[-1].environment,
    )
