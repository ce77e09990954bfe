"""Figures of kernels that a later run is compared with: a JSON file that is kept in version control.

One entry per kernel, device, sizes and way of timing. Whoever writes replaces the own entries only, and keeps
everything else, unknown fields included.
"""

from __future__ import annotations

import datetime
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..core import Evaluation, Speedup
from ..core.errors import OptionError
from ..core.files import cache_folder, write_whole
from ..core.text import digest_of
from .devices import device_label
from .jobs import Job

SCHEMA = 1
OF_THE_REFERENCE = ("torch", "threads")
"""What the reference's time, and so the ratio, depends on."""


class FigureKey(BaseModel):
    """What a figure belongs to."""

    model_config = ConfigDict(frozen=True)

    kernel: str
    """The kernel's path from the file's folder, or 'backend/id' for a shipped one."""
    device: str
    """'NVIDIA H200', or a processor's name with its cores."""
    workload: str
    sizes: str
    precision: str
    graph: bool


class Figure(FigureKey):
    """What was measured of a kernel; fields that this version does not know are kept."""

    model_config = ConfigDict(frozen=True, extra="allow")

    problem_digest: str
    kernel_digest: str
    speedup: Speedup
    """Over the reference of the same run: the median of all runs, and an interval that spans those of all runs."""
    runs: int = Field(ge=1)
    latency_ms: float = Field(gt=0)
    reference_ms: float = Field(gt=0)
    recorded: str
    """The day, as 2026-11-23."""
    environment: dict[str, str]
    """Device and versions."""

    def why_incomparable(self, job: Job, found: Evaluation) -> str:
        """Why the ratio of today means something else; '' where it does not."""
        if self.problem_digest != job.problem.digest:
            return f"its problem has changed since {self.recorded}: record it again"
        for name in OF_THE_REFERENCE:
            then, now = self.environment.get(name), found.environment.get(name)
            if then != now:
                return f"the reference ran with {name} {then}, and {now} now: record it again"
        return ""


class StoredFigures:
    """The figures of one file. A missing file has none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries = self._read()["entries"]

    def find(self, key: FigureKey) -> Figure | None:
        """The figure of a kernel on a device; raises `OptionError` for an entry that is none."""
        entry = next((one for one in self._entries if self._is(one, key)), None)
        if entry is None:
            return None
        try:
            return Figure.model_validate(entry)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            told = f"{self.path}: the entry of {key.kernel} on {key.device}: {where}: {first['msg']}"
            raise OptionError(told, "write it again with `record`") from None

    def devices_of(self, kernel: str) -> list[str]:
        """The devices with a figure of a kernel."""
        return sorted({str(one.get("device")) for one in self._entries if one.get("kernel") == kernel})

    def put(self, figure: Figure) -> None:
        """Add or replace one figure, keeping what others wrote meanwhile; raises `ResultsError` if that fails."""
        with self._lock():
            content = self._read()
            others = [one for one in content["entries"] if not self._is(one, figure)]
            entries = [*others, figure.model_dump(mode="json")]
            entries.sort(key=lambda one: (str(one.get("kernel")), str(one.get("device")), str(one.get("workload"))))
            text = json.dumps({**content, "schema": SCHEMA, "entries": entries}, indent=1) + "\n"
            write_whole(self.path, text, "choose another `baseline_file`")
            self._entries = entries

    def _lock(self) -> FileLock:
        """A lock that all who write this file share; it stands apart from it, where version control does not look."""
        name = digest_of(str(self.path.resolve()))
        folder = cache_folder() / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        return FileLock(folder / f"figures-{name}.lock")

    def _read(self) -> dict[str, Any]:
        try:
            content: Any = json.loads(self.path.read_text())
        except FileNotFoundError:
            return {"schema": SCHEMA, "entries": []}
        except (OSError, ValueError) as error:
            raise OptionError(f"cannot read `baseline_file` {self.path}: {error}") from None
        entries = content.get("entries") if isinstance(content, dict) else None
        if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
            raise OptionError(f"`baseline_file` {self.path} holds no figures", "write one with `record`")
        if content.get("schema") != SCHEMA:
            told = f"`baseline_file` {self.path} has schema {content.get('schema')}, and this version reads {SCHEMA}"
            raise OptionError(told, "use the kernelwright that wrote it, or write it again with `record`")
        return dict(content)

    @staticmethod
    def _is(entry: dict[str, Any], key: FigureKey) -> bool:
        return all(entry.get(name) == getattr(key, name) for name in FigureKey.model_fields)


def key_of(job: Job, path: Path | None) -> FigureKey:
    """What a kernel's figure is filed under: its path as seen from the file's folder, wherever the checkout lies."""
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
        graph=job.graph,
    )


def figure_of(key: FigureKey, job: Job, found: Sequence[Evaluation]) -> Figure:
    """The figure to store of evaluations that were timed, one a run."""
    speedups = [one.speedup for one in found if one.speedup is not None]
    spanned = Speedup(
        ratio=statistics.median(one.ratio for one in speedups),
        low=min(one.low for one in speedups),
        high=max(one.high for one in speedups),
    )
    return Figure(
        **key.model_dump(),
        problem_digest=job.problem.digest,
        kernel_digest=job.kernel.digest,
        speedup=spanned,
        runs=len(speedups),
        latency_ms=statistics.median(one.measurement.median_ms for one in found if one.measurement),
        reference_ms=statistics.median(one.reference.median_ms for one in found if one.reference),
        recorded=datetime.datetime.now(datetime.UTC).date().isoformat(),
        environment=found[-1].environment,
    )
