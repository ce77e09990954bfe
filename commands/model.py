"""Run a script with plain torch.compile and with the store of regions, and report the gain.

The script runs unchanged, in alternating fresh processes. Its steps are marked by `kernelwright.step()`, or are calls
of the compiled model. Models that it compiles with `backend` inductor or kernelwright get plain Inductor in one half of
the runs, and Inductor with the store's regions in the other.

Exit codes: 0 a gain beyond noise, 1 outputs differ, 2 wrong usage, or a script that fails or compiles nothing, 3 no
gain beyond noise.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ..core import OptionError, Speedup
from ..core.events import Emit, progress
from ..core.file_locks import temporary_folder
from ..core.files import write_whole
from ..core.measurement import Measurement
from ..deploy.models.backend import RECORD, SHARES
from ..deploy.models.script_runs import ScriptRun, compared, region_rows, require_compiled
from ..deploy.models.script_runs import run_script as run_once
from ..deploy.models.steps import StepShares
from ..runtime import command, result
from ..runtime.command import NOTHING_FASTER
from ..runtime.options.option import OUTPUT, described, option
from ..runtime.options.option import Options as BaseOptions
from ..runtime.runtime import Runtime

EXAMPLES = ("model train.py", "model train.py --rounds 5 -- --steps 100")
POSITIONAL = ("script", "arguments")


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """Measure a model with plain torch.compile and with the store."""

    script: Path = field(kw_only=False, metadata=described("The script, as `python` takes it.", metavar="SCRIPT"))
    arguments: tuple[str, ...] = field(
        default=(), kw_only=False, metadata=described("Its arguments, behind --.", metavar="[-- ARGS...]")
    )
    rounds: int = option(
        3, "Pairs of runs that are timed.", at_least=2, advice="one pair does not show how much processes differ"
    )
    warmup: int = option(5, "Steps of each run that are not counted.", at_least=0)
    tolerance: float | None = option(
        None,
        "Largest difference of outputs or losses, as a part of the largest value; by default 1e-3, and 2e-2 for bf16 "
        "and fp16.",
        at_least=0,
    )
    results: Path = option(Path("results"), "Folder for the record, from which `report` makes a page.", OUTPUT)

    def check(self) -> None:
        """Raise `OptionError` for a script that is not there."""
        super().check()
        if not self.script.is_file():
            raise OptionError(f"there is no script {self.script}", "name the file that `python` runs")


@dataclass(frozen=True)
class Plan(command.Plan):
    """The script, and how it is measured."""

    script: Path
    arguments: tuple[str, ...]
    rounds: int
    warmup: int
    tolerance: float | None
    results: Path


class Result(result.Result):
    """A model's steps with plain torch.compile and with the store. Times are in milliseconds."""

    script: Path
    steps: int
    """Steps of a run that count."""
    marked: bool
    """Whether the script marks steps; otherwise they are calls of the compiled model."""
    rounds: int
    plain_ms: tuple[float, float, float]
    """A step with plain torch.compile: the median, and its 95 % interval."""
    store_ms: tuple[float, float, float]
    gain: Speedup
    """Median of the rounds' gains, with an interval that has the differences among processes."""
    used: tuple[str, ...]
    """Entries of the store that were used."""
    compared: dict[str, Any] | None
    """The compared values, the error, the tolerance, and whether they agree; None if the script returns no numbers."""
    unsteady: bool
    """Whether two runs of plain torch.compile differ as much, so that nothing can be compared."""
    graphs: int
    breaks: tuple[dict[str, Any], ...]
    """Graph breaks: where, why, how many."""
    host_ms: tuple[float | None, float | None]
    """Time of a step in which no kernel runs, with plain torch.compile and with the store; None if not profiled."""
    step_ms: tuple[float | None, float | None]
    """Times of the profiled steps, which are slower; the regions' times are parts of them."""
    regions: tuple[dict[str, Any], ...]
    """Each region with its operators, times before and after, and the entry that serves it."""
    remarks: tuple[str, ...]
    """Remarks, such as why entries were not used."""
    record: Path
    """This result, from which `report` makes a page."""

    @result.computed
    def credited(self) -> float | None:
        """The gain, if an entry was used, the gain is beyond noise and the outputs agree; otherwise None."""
        return self.gain.ratio if self.used and self.gain.low > 1.0 and self.agrees else None

    @property
    def agrees(self) -> bool:
        """Whether outputs agree, or there are none."""
        return self.compared is None or bool(self.compared["agrees"])

    @property
    def exit_code(self) -> int:
        """0 for a gain, 1 if outputs differ, 3 without a gain."""
        return 1 if not self.agrees else 0 if self.credited else NOTHING_FASTER

    @property
    def warnings(self) -> list[str]:
        """Differences of outputs, and the backend's warnings."""
        found = list(self.remarks)
        if self.unsteady:
            found.insert(0, "two runs with plain torch.compile differ as much: set seeds in the script")
        elif not self.agrees:
            found.insert(0, "what is computed differs, so that no gain is credited")
        return found

    def lines(self) -> Iterator[Any]:
        """Step times, gain, comparison, graph breaks, regions."""
        by = "marked" if self.marked else "calls of the compiled model"
        yield f"{self.steps} steps ({by}) in each of {self.rounds} rounds"
        yield f"step: {_interval(self.plain_ms)} with torch.compile, {_interval(self.store_ms)} with the store"
        yield f"credited gain: {self._gain()}"
        if self.compared is not None:
            differs = "agree" if self.agrees else "DIFFER"
            about = (
                f"{self.compared['what']}: error {self.compared['error']:.2g}, allowed {self.compared['tolerance']:g}"
            )
            yield f"outputs {differs}: {about}"
        yield f"graphs: {self.graphs}, graph breaks: {sum(item['count'] for item in self.breaks)}"
        yield from (f"  {item['where']}: {item['reason']} ({item['count']} times)" for item in self.breaks)
        idle = [host / step for host, step in zip(self.host_ms, self.step_ms, strict=True) if host and step]
        if len(idle) == 2:
            yield "no kernel runs in {:.1%} of a step, {:.1%} with the store, by torch.profiler".format(*idle)
        if self.regions:
            yield self._table()
        served = sum(bool(row["entry"]) for row in self.regions)
        yield f"{len(self.regions)} regions, {served} in the store"
        yield from result.file_lines(record=self.record)

    def _gain(self) -> str:
        text = str(self.gain)
        if self.credited:
            return text
        if not self.agrees:
            return f"none: outputs differ ({text})"
        if not self.used:
            return f"none: no entry of the store was used; the difference of equal code is {text}"
        return f"none: slower, {text}" if self.gain.high < 1.0 else f"none: {text} is within noise"

    def _table(self) -> Any:
        table = result.table("region", "operators", ">calls", ">before", ">after", "entry")
        for row in self.regions:
            shares = [
                "" if time is None or not step else f"{time / step:.1%}"
                for time, step in zip((row["before_ms"], row["after_ms"]), self.step_ms, strict=True)
            ]
            entry = row["entry"].partition("-")[2][:8] or "not in the store"
            table.add_row(row["region"], row["what"], str(row["calls"]), *shares, entry)
        return table


def _interval(times: tuple[float, float, float]) -> str:
    return "{:.4g} ms [{:.4g}, {:.4g}]".format(*times)


def plan(options: Options, runtime: Runtime) -> Plan:
    """Take the options."""
    return Plan.of(options)


def run(plan: Plan, emit: Emit) -> Result:
    """Run the script once in each way under a profiler, then time it."""
    with (
        temporary_folder("kernelwright-model-") as folder,
        progress(emit, f"running {plan.script.name}", 2 + 2 * plan.rounds) as advance,
    ):
        run_script = partial(run_once, plan.script, plan.arguments, folder)
        recorded, shares = folder / "recorded", [folder / "plain.json", folder / "store.json"]
        plain = run_script("values", {RECORD: str(recorded), SHARES: str(shares[0])})
        require_compiled(plan.script, plain)
        plain.counted(plan.warmup)
        advance("recorded")
        store = run_script("values", {SHARES: str(shares[1])})
        advance("with the store")
        timed = _timed(plan, run_script, advance)
        agreement = compared(plain, store, plan.tolerance)
        unsteady = False
        if agreement is not None and not agreement.agrees:
            again = compared(plain, run_script("values", {RECORD: str(folder / "again")}), plan.tolerance)
            unsteady = again is not None and not again.agrees
        before, after = (StepShares.read(path) for path in shares)
        times = [None if item is None else item.regions for item in (before, after)]
        rows = list(region_rows(recorded, times[0], times[1], store.chosen))
    pairs = zip(timed["plain"], timed["store"], strict=True)
    found = Result(
        script=plan.script,
        steps=min(len(item.samples_ms) for item in timed["plain"]),
        marked=plain.marked,
        rounds=plan.rounds,
        plain_ms=_together(timed["plain"]),
        store_ms=_together(timed["store"]),
        gain=Speedup.of_processes([Speedup.between(*pair) for pair in pairs]),
        used=store.chosen,
        compared=None if agreement is None else {**asdict(agreement), "agrees": agreement.agrees},
        unsteady=unsteady,
        graphs=plain.graphs,
        breaks=tuple(asdict(item) for item in plain.breaks),
        host_ms=(before.host_ms if before else None, after.host_ms if after else None),
        step_ms=(before.step_ms if before else None, after.step_ms if after else None),
        regions=tuple(asdict(row) for row in rows),
        remarks=tuple(dict.fromkeys((*plain.warnings, *store.warnings))),
        record=plan.results / f"model_{plan.script.stem}.json",
    )
    write_whole(found.record, json.dumps(found.to_json(), indent=1) + "\n", "choose another `results`")
    return found


def _timed(
    plan: Plan, run_script: Callable[..., ScriptRun], advance: Callable[[str], None]
) -> dict[str, list[Measurement]]:
    """Time both ways alternately; the order changes from round to round."""
    found: dict[str, list[Measurement]] = {"plain": [], "store": []}
    for number in range(plan.rounds):
        for way in ("plain", "store") if number % 2 == 0 else ("store", "plain"):
            times = run_script(way, {}).counted(plan.warmup)
            found[way].append(Measurement(samples_ms=times, method="steps of a script", warmup=plan.warmup))
            advance(f"round {number + 1}, {way}")
    return found


def _together(measured: list[Measurement]) -> tuple[float, float, float]:
    """Return median and interval over the samples of all rounds."""
    whole = Measurement(samples_ms=tuple(time for item in measured for time in item.samples_ms))
    return (whole.median_ms, *whole.interval_ms)
