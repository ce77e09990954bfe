"""Parts of `list_slow`: rows in tables and in formats for pipes, earlier measurements, problems without a kernel.

Measurements are on disk at once: an interrupted listing continues where it stopped. Problems without a kernel are
ranked by their potential gain: eager and compiled time over the roofline's floor.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from ..core import KernelError, ProblemError, TorchProblem
from ..core.baselines import COMPILE, DEFAULT
from ..core.json_lines import JsonLines
from ..corpus import find_problem, list_problems
from ..corpus.problems import ProblemFile
from ..deploy.models.reference import CALLS, SHARE
from ..evaluators.local import LocalEvaluator
from ..evaluators.reference.client import ReferenceLostError
from ..runtime import result
from ..runtime.devices import device_label
from ..runtime.options.trust import Conditions, TimingOptions

DISTURBED = "DISTURBED"
VERSION = "3"
"""Version of the measurement method. Records of other versions are ignored."""
_FAILED = "failed"


Metrics = dict[str, Any]
Measure = Callable[[], tuple[dict[str, Any], dict[str, str]]]
"""Returns metrics and environment. Raises `KernelwrightError` if nothing can be measured."""


@dataclass(frozen=True)
class SlowKernel:
    """A kernel and its measured speedup. Times are medians of one call, in milliseconds."""

    speedup: float
    """Speedup over the reference at `precision`."""
    category: str
    """SLOW, MODERATE, GOOD, or DISTURBED if other processes made the speedup unreliable."""
    kernel: str
    """`level2/2_10.py`."""
    latency_ms: float
    reference_ms: float
    problem: str
    workload: str
    device: str
    contention: float | None
    """Cores that other processes used, if that makes the speedup unreliable."""
    speedup_default: float | None
    """Over eager PyTorch with its own defaults; on a CPU the same as `speedup`."""
    precision: str
    """How exactly the reference computed: fp32, or default."""

    @property
    def in_words(self) -> str:
        """'0.470x'."""
        return f"{self.speedup:.3f}x"


@dataclass(frozen=True)
class SlowProblem:
    """A problem without a kernel. Times are medians of one call, in milliseconds."""

    headroom: float
    """The faster of eager and compiled time over the floor."""
    problem: str
    """`level2/2_26.py`, or the name of a Definition, as `optimize` takes it."""
    eager_ms: float
    """Time of eager PyTorch with its defaults."""
    compile_ms: float | None
    """Time with torch.compile; None if that fails."""
    floor_ms: float
    """Lower bound by traffic and matrix products (the roofline model)."""
    name: str
    workload: str
    device: str
    contention: float | None
    """Cores that other processes used, if that makes the times unreliable."""
    calls: int | None = None
    """How often a recorded region ran."""
    share: float | None = None
    """Share of a step; if no step was profiled, share of the time of all recorded regions, each compiled by itself."""

    @property
    def compiled_or_eager_ms(self) -> float:
        """The faster of compiled and eager time."""
        return self.eager_ms if self.compile_ms is None else min(self.eager_ms, self.compile_ms)

    @property
    def to_gain(self) -> float:
        """Rank of a region: share times headroom."""
        return (self.share or 0.0) * (1.0 - 1.0 / max(1.0, self.headroom))

    @property
    def in_words(self) -> str:
        """'7.1x its floor'."""
        return f"{self.headroom:.1f}x its floor"


COLUMNS = tuple(field.name for field in dataclasses.fields(SlowKernel))
PROBLEM_COLUMNS = tuple(field.name for field in dataclasses.fields(SlowProblem) if field.name not in COLUMNS)


def render_slow(rows: Sequence[SlowKernel], form: str, problems: Sequence[SlowProblem] = ()) -> str:
    """Format rows for a pipe, kernels first.

    Plain rows are speedup or headroom, category, and the argument of `optimize`.
    """
    records = [*(dataclasses.asdict(row) for row in rows), *(dataclasses.asdict(row) for row in problems)]
    if form == "json":
        return json.dumps(records, indent=1) + "\n"
    if form == "csv":
        text = io.StringIO()
        writer = csv.DictWriter(text, (*COLUMNS, *(PROBLEM_COLUMNS if problems else ())), lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
        return text.getvalue()
    kernels = [f"{row.speedup:.3f} {row.category} {row.kernel}\n" for row in rows]
    return "".join([*kernels, *(f"{row.headroom:.3f} {_kind(row)} {row.problem}\n" for row in problems)])


def _kind(row: SlowProblem) -> str:
    return "NO_KERNEL" if row.share is None else f"{row.share:.1%}"


def slow_table(slow: Sequence[SlowKernel], measured: int, threshold: float) -> Table:
    """Kernels below the threshold, on a terminal."""
    disturbed = sum(row.contention is not None for row in slow)
    title = f"{len(slow) - disturbed} of {measured} kernels below {threshold:g}x"
    title += f", {disturbed} disturbed" if disturbed else ""
    columns = ("kernel", ">speedup", "", ">latency ms", ">reference ms", ">against defaults", "problem")
    table = result.table(*columns, title=title)
    colors = {"SLOW": "red", "MODERATE": "yellow", "GOOD": "green", "DISTURBED": "yellow"}
    for row in slow:
        category = f"[{colors[row.category]}]{row.category}[/]"
        default = "" if row.speedup_default is None else f"{row.speedup_default:.3f}x"
        times = (f"{row.latency_ms:.3f}", f"{row.reference_ms:.3f}", default)
        table.add_row(row.kernel, f"{row.speedup:.3f}x", category, *times, escape(row.problem))
    return table


def problem_table(rows: Sequence[SlowProblem]) -> Table:
    """Problems without a kernel, or recorded regions, on a terminal."""
    recorded = any(row.share is not None for row in rows)
    last = (">calls", ">share") if recorded else ("name",)
    columns = ("problem", ">headroom", ">eager ms", ">compiled ms", ">floor ms", *last)
    what = "recorded regions, by share times headroom" if recorded else "problems without a kernel, by headroom"
    table = result.table(*columns, title=f"{len(rows)} {what}")
    for row in rows:
        mark = "" if row.contention is None else " (disturbed)"
        compiled = "" if row.compile_ms is None else f"{row.compile_ms:.4g}"
        times = (f"{row.eager_ms:.4g}", compiled, f"{row.floor_ms:.3g}")
        rest = (escape(row.name),) if row.share is None else (str(row.calls), f"{row.share:.1%}")
        table.add_row(escape(row.problem), f"{row.headroom:.1f}x{mark}", *times, *rest)
    return table


class Records(JsonLines):
    """Earlier metrics, by device, versions, problem, sizes, kernel source and strictness of the check."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "set KERNELWRIGHT_CACHE to another folder")
        self._known = self.replay()

    def find_or_measure(
        self, key: Mapping[str, str], measure: Measure, resume: bool = False, again: bool = False
    ) -> Metrics:
        """Return the record with this key, measured now if there is none. Raises `KernelwrightError` if that fails.

        Disturbed records are kept, or a busy machine would measure for minutes at every call; `again` measures them
        again. `resume` also returns recorded failures. A measurement that the machine prevented leaves no record.
        """
        if resume and (reason := self._failure(key)) is not None:
            raise KernelError(reason)
        known = self.find(key)
        if known is None or (again and known.get("contention") is not None):
            try:
                self.add(key, *measure())
            except (KernelError, ProblemError) as error:
                if not isinstance(error, ReferenceLostError):
                    self._write({"key": dict(key), _FAILED: str(error)})
                raise
            known = self.find(key)
            assert known is not None
        return known

    def find(self, key: Mapping[str, str]) -> dict[str, Any] | None:
        """Return the newest undisturbed record with this key, otherwise the newest disturbed one."""
        found = [record for record in self._of(key) if _FAILED not in record]
        quiet = [record for record in found if record.get("contention") is None]
        return next(reversed(quiet or found), None)

    def _failure(self, key: Mapping[str, str]) -> str | None:
        """Return the failure of the last attempt with this key; None if it did not fail."""
        found = self._of(key)
        reason: str | None = found[-1].get(_FAILED) if found else None
        return reason

    def add(self, key: Mapping[str, str], metrics: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        """Remember a measurement."""
        self._write({"key": dict(key), **metrics, "environment": dict(environment)})

    def _of(self, key: Mapping[str, str]) -> list[dict[str, Any]]:
        return [record for record in self._known if record.get("key") == key]

    def _write(self, record: dict[str, Any]) -> None:
        self.append(record)
        self._known.append(record)


def problem_key(problem: TorchProblem, device: str, timing: TimingOptions) -> dict[str, str]:
    """Return everything that the times of a reference depend on."""
    return {
        "version": VERSION,
        "device": device_label(device),
        "torch": version("torch"),
        "problem": problem.id,
        "reference": problem.digest,
        "sizes": problem.sizes_key,
        "graph": str(timing.graph),
        "precision": timing.precision.value,
        "proof": Conditions.of(timing).proof,
    }


def problems_without(known: Set[str], problem: str | None, dataset: Path | None, folder: Path | None) -> list[Any]:
    """Return the files of a dataset's problems, all or the named one, without those of the `known` ids."""
    if dataset is None or folder is not None:
        return []
    offered = [find_problem(problem, dataset)] if problem else list_problems(dataset)
    return [file for file in offered if file.id not in known]


def recorded_problems(folder: Path) -> list[ProblemFile]:
    """Return the regions that a model's run wrote to a folder. Raises `ProblemError` if there are none."""
    paths = sorted(folder.glob("region_*.py"))
    if not paths:
        raise ProblemError(f"{folder} has no recorded regions; run the model with KERNELWRIGHT_RECORD={folder}")
    return [ProblemFile(str(path), path.stem, path) for path in paths]


def with_shares(rows: Sequence[SlowProblem], files: Sequence[ProblemFile]) -> list[SlowProblem]:
    """Return the rows of recorded regions with their shares, the one with the most to gain first.

    Shares are recorded shares of a step. If no step was profiled, they are shares of the time of all regions, each
    compiled by itself.
    """
    constants = {str(file.path): file.read().constants for file in files}
    calls = {name: _number(found.get(CALLS), 1) for name, found in constants.items()}
    shares = {name: _number(found[SHARE], 0.0) for name, found in constants.items() if SHARE in found}
    if not shares:
        seconds = {row.problem: calls[row.problem] * row.compiled_or_eager_ms for row in rows}
        total = sum(seconds.values()) or 1.0
        shares = {name: value / total for name, value in seconds.items()}
    found = [
        dataclasses.replace(row, calls=int(calls[row.problem]), share=float(shares.get(row.problem, 0.0)))
        for row in rows
    ]
    return sorted(found, key=lambda row: -row.to_gain)


def _number(value: Any, otherwise: float) -> float:
    """Return a number from a file that a user may have edited; `otherwise` for anything else."""
    return value if isinstance(value, int | float) and value >= 0 else otherwise


def problem_row(
    problem: TorchProblem, key: Mapping[str, str], evaluator: LocalEvaluator, find_or_measure: Callable[..., Metrics]
) -> SlowProblem:
    """Return the row of a problem; `KernelwrightError` where the reference fails or returns another result twice."""
    known = find_or_measure({**key, "kernel": "none"}, lambda: _measured(problem, evaluator))
    times = [time for time in (known["eager_ms"], known["compile_ms"]) if time is not None]
    return SlowProblem(
        headroom=min(times) / known["floor_ms"],
        problem=f"{problem.id.removesuffix('.py')}.py" if "/" in problem.id else problem.id,
        eager_ms=known["eager_ms"],
        compile_ms=known["compile_ms"],
        floor_ms=known["floor_ms"],
        name=problem.name,
        workload=problem.workload,
        device=key["device"],
        contention=known["contention"],
    )


def _measured(problem: TorchProblem, evaluator: LocalEvaluator) -> tuple[dict[str, Any], dict[str, str]]:
    profile = evaluator.profile(problem)
    times = evaluator.time_reference(problem)
    assert times.reference is not None
    default, compiled = times.baselines.get(DEFAULT), times.baselines.get(COMPILE)
    metrics = {
        # Where its defaults make no difference, eager is timed once.
        "eager_ms": (default or times.reference.measurement).median_ms,
        "compile_ms": compiled.median_ms if compiled else None,
        "floor_ms": profile.floor_ms,
        "contention": times.contention,
    }
    return metrics, evaluator.environment(problem)
