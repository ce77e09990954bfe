"""Runs of a script with compiled models, each in a fresh process, and comparisons of their outputs."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core import OptionError
from ...core.text import first_line
from .backend import DISABLE, RECORD, SHARES
from .reference import CALLS

LEAST = 5
"""Steps that a run must have after those that are not counted."""
_WARNING = re.compile(r"Warning: kernelwright: (.*)")
_OPERATOR = re.compile(r"torch\.ops\.\w+\.(\w+)")
_ARRANGING = frozenset({"permute", "reshape", "expand", "unsqueeze", "squeeze", "view", "slice", "full"})


@dataclass(frozen=True)
class GraphBreak:
    """A place where Dynamo ended a graph."""

    where: str
    """'train.py:9'; '' if unknown."""
    reason: str
    count: int


@dataclass(frozen=True)
class ScriptRun:
    """The compiled models of one run of a script; fields as in `ModelWatch.report`."""

    compiled: int
    """How often torch.compile was called."""
    called: int
    """Calls of the model that was called most often."""
    graphs: int
    breaks: tuple[GraphBreak, ...]
    marked: bool
    """Whether the script marks its steps."""
    steps_ms: tuple[float, ...]
    chosen: tuple[str, ...]
    """Entries of the store that were used."""
    warnings: tuple[str, ...] = ()
    curve: tuple[float, ...] = ()
    """A value for each step, such as the loss."""
    outputs: tuple[tuple[float, ...], ...] = ()
    """Elements of the first and the last call's outputs."""
    dtypes: tuple[str, ...] = ()

    def counted(self, warmup: int) -> tuple[float, ...]:
        """Return the times of steps after the first ones. Raises `OptionError` if there are too few."""
        found = self.steps_ms[warmup:]
        if len(found) < LEAST:
            what = "marks of kernelwright.step()" if self.marked else "calls of the compiled model"
            raise OptionError(
                f"the script makes {len(self.steps_ms)} steps, by {what}; {warmup + LEAST} are needed, of which "
                f"{warmup} are not counted",
                "let it make more, or give a smaller `warmup`",
            )
        return found


def run_script(
    script: Path, arguments: Sequence[str], folder: Path, way: str, variables: Mapping[str, str]
) -> ScriptRun:
    """Run a script and return the report on its compiled models.

    `way` is that of `script.py`; `folder` takes the report; `variables` are the backend's. Raises `OptionError` for a
    script that fails.
    """
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    own = {RECORD, SHARES, *([DISABLE] if way != "plain" else [])}
    environment = {name: value for name, value in os.environ.items() if name not in own}
    environment |= variables
    module = f"{__package__}.script"
    command = [sys.executable, "-m", module, str(report), way, str(script), *arguments]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", check=False)
    if run.returncode or not report.exists():
        last = ([line for line in run.stderr.splitlines() if line.strip()] or ["it says nothing"])[-1]
        how = "plain torch.compile" if way == "plain" or RECORD in variables else "the store"
        raise OptionError(
            f"{script} fails with {how} (exit code {run.returncode}): {last.strip()}",
            f"`{Path(sys.executable).name} {script}` must run",
        )
    found: dict[str, Any] = json.loads(report.read_text())
    found["breaks"] = [GraphBreak(**item) for item in found["breaks"]]
    found["warnings"] = list(dict.fromkeys(_WARNING.findall(run.stderr)))
    fields: dict[str, Any] = {name: tuple(item) if isinstance(item, list) else item for name, item in found.items()}
    return ScriptRun(**fields)


def require_compiled(script: Path, run: ScriptRun) -> None:
    """Raise `OptionError` for a script whose model never ran as compiled code."""
    if not run.compiled:
        raise OptionError(f"{script} never calls torch.compile", "compile its model: model = torch.compile(model)")
    if not run.called:
        raise OptionError(f"{script} never calls the model that it compiles", "call what torch.compile returns")
    if not run.graphs:
        why = "".join(f"; {item.reason} at {item.where}" for item in run.breaks[:1])
        raise OptionError(
            f"nothing of {script} is compiled, so that its model runs eagerly{why}",
            "TORCH_LOGS=graph_breaks shows why",
        )


@dataclass(frozen=True)
class Agreement:
    """A comparison of what two runs returned."""

    what: str
    """'the curve of 30 values', '4 tensors of outputs'."""
    error: float
    """The largest difference, as a part of the largest value."""
    tolerance: float

    @property
    def agrees(self) -> bool:
        """Whether the difference is within the tolerance."""
        return self.error <= self.tolerance


def compared(one: ScriptRun, other: ScriptRun, tolerance: float | None) -> Agreement | None:
    """Compare the values of two runs; None without values. The default tolerance depends on the dtypes."""
    exact = set(one.dtypes) <= {"float32", "float64"}
    allowed = tolerance if tolerance is not None else 1e-3 if exact else 2e-2
    rows = [pair for pair in ((one.curve, other.curve), *zip(one.outputs, other.outputs, strict=False)) if pair[0]]
    same = len(one.outputs) == len(other.outputs)
    if not rows and same:
        return None
    parts = [f"a curve of {len(one.curve)} values"] if one.curve else []
    parts += [f"{len(one.outputs)} tensors of the first and the last call"] if one.outputs else []
    error = max(_error(*row) for row in rows) if same else math.inf
    return Agreement(" and ".join(parts), error, allowed)


def _error(expected: Sequence[float], found: Sequence[float]) -> float:
    """Return the largest difference relative to the largest expected value; infinity if a value is NaN."""
    if len(expected) != len(found):
        return math.inf
    different = [(wanted, seen) for wanted, seen in zip(expected, found, strict=True) if not _same(wanted, seen)]
    if any(not (math.isfinite(wanted) and math.isfinite(seen)) for wanted, seen in different):
        return math.inf
    largest = max((abs(item) for item in expected if math.isfinite(item)), default=0.0)
    worst = max((abs(wanted - seen) for wanted, seen in different), default=0.0)
    return worst / largest if largest else worst


def _same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


@dataclass(frozen=True)
class RegionRow:
    """A region of a model, with plain torch.compile and with the store."""

    region: str
    """The first digits of its key, as its file is named."""
    what: str
    """Its operators: 'addmm, relu'."""
    calls: int
    before_ms: float | None
    """Its time in a step with plain torch.compile; None if no step was profiled."""
    after_ms: float | None
    entry: str = field(default="")
    """The entry of the store that serves it; '' if none does."""


def region_rows(
    folder: Path, before: Mapping[str, float] | None, after: Mapping[str, float] | None, chosen: Sequence[str]
) -> Iterator[RegionRow]:
    """Yield the regions that were recorded to a folder, the one that takes longest first."""

    def time_of(times: Mapping[str, float] | None, key: str) -> float | None:
        return None if times is None else sum(value for name, value in times.items() if name.startswith(key))

    rows = []
    for path in sorted(folder.glob("region_*.py")):
        key, source = path.stem.partition("_")[2], path.read_text()
        names = dict.fromkeys(name for name in _OPERATOR.findall(source) if name not in _ARRANGING)
        calls = re.search(rf"^{CALLS} = (\d+)$", source, re.MULTILINE)
        entry = next((name for name in chosen if name.startswith(key)), "")
        what = first_line(", ".join(names), 60)
        ran = int(calls[1]) if calls else 0
        rows.append(RegionRow(key, what, ran, time_of(before, key), time_of(after, key), entry))
    yield from sorted(rows, key=lambda row: (-(row.before_ms or 0.0), row.region))
