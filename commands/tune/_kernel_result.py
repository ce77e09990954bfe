"""The result of `tune kernel`: figures and files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from pydantic import computed_field
from rich.markup import escape
from rich.text import Text

from ...core import Config, Evaluation, Kernel, Metrics, SpaceError
from ...core.files import write_whole
from ...runtime import result
from ...runtime.command import search_code
from ...runtime.result import JobResult, beside_reference, busy, file_lines, sanitizer_line, workload_lines
from ...tuners.discovery import FoundSpace
from ...tuners.formats import write_csv, write_t4
from ...tuners.search import Found


class Result(JobResult):
    """A finished search, and its files. Times are in milliseconds."""

    absent_if_empty: ClassVar = ("patch",)
    space: result.ForPython[FoundSpace]
    found: result.ForPython[Found]
    folder: result.ForPython[Path]
    save: result.ForPython[bool] = True
    """Whether the tuned kernel is written."""
    solution: result.ForPython[Path | None] = None
    """The tuned kernel as a Solution, in the dataset of a recorded workload."""
    tuner: str
    seed: int
    patch: Path | None = None
    """Patch of the user's own files; absent if none was requested, or nothing became faster."""

    @result.computed
    def backend(self) -> str:
        """The language and target of the kernel."""
        return self.job.backend

    @result.computed
    def device(self) -> str:
        """Name of the device; if no evaluation has it, the name in the options."""
        return self.environment.get("device", self.job.device)

    @result.computed
    def environment(self) -> dict[str, str]:
        """Device and versions, from any evaluation, which may have failed."""
        noted = (evaluation.environment for evaluation in (*self.found.finals, *self.found.evaluations))
        return next(filter(None, noted), {})

    @computed_field(alias="space")
    @property
    def space_searched(self) -> dict[str, Any]:
        """Origin of the space, its number of configs, and how many of them the device rules out."""
        return {"origin": self.space.origin, "size": self.space.count, "pruned": self.space.ruled_out}

    @result.computed
    def trials(self) -> int:
        """Configs that were evaluated."""
        return self.found.progress.trials

    @result.computed
    def recalled(self) -> int:
        """Trials of an earlier run."""
        return self.found.progress.recalled

    @result.computed
    def failed(self) -> int:
        """Trials that were not correct."""
        return self.found.progress.failed

    @result.computed
    def duplicates(self) -> int:
        """Trials whose code was already measured under another config."""
        return self.found.progress.duplicates

    @result.computed
    def statuses(self) -> dict[str, int]:
        """Number of trials by status."""
        return {status.value: count for status, count in self.found.progress.statuses.items()}

    @result.computed
    def seconds(self) -> float:
        """Seconds spent on trials, including those of an earlier run."""
        return round(self.found.progress.seconds, 3)

    @result.computed
    def stopped(self) -> str:
        """Why the search ended."""
        return self.found.stopped

    @result.computed
    def start(self) -> Metrics | None:
        """The unchanged kernel, timed with the finalists."""
        return self.found.start.metrics() if self.found.start else None

    @result.computed
    def best(self) -> dict[str, Any] | None:
        """The winner's config and metrics."""
        return _row(self.found.best) if self.found.best else None

    @result.computed
    def best_so_far(self) -> dict[str, Any] | None:
        """The fastest trial, which need not be the winner of the finals."""
        leader = self.found.progress.best
        return {"config": leader.config, "latency_ms": leader.latency_ms} if leader else None

    @computed_field(alias="times_as_fast")
    @property
    def gain(self) -> float | None:
        """Speedup over the kernel's own constants."""
        best, start = self.found.best, self.found.start
        if self.own:
            return 1.0  # equal code, timed twice: the difference is noise
        return start.latency_ms / best.latency_ms if best and start and best.latency_ms and start.latency_ms else None

    @result.computed
    def finalists(self) -> list[dict[str, Any]]:
        """The configs that were timed interleaved, and the unchanged kernel, the fastest first."""
        return [_row(final) for final in self.found.finals]

    @computed_field(alias="kernel")
    @property
    def kernel_path(self) -> Path | None:
        """File of the tuned kernel; None if there is none to write."""
        best, short = self.found.best, self.job.problem.id.rsplit("/", 1)[-1]
        if not self.save or best is None or not self.faster or self.unproven:
            return None
        # A disturbed gain does not go into the file name.
        figure = f"_{self.gain:.3f}x" if self.gain and self.contention is None else ""
        return self.folder / f"{short}_tuned{figure}.py"

    @result.computed
    def journal(self) -> Path:
        """The file with each trial."""
        return self.folder / "journal.jsonl"

    @property
    def exit_code(self) -> int:
        """0 if a config is faster, 1 if none was correct."""
        return search_code(self.found.best is not None and not self.unproven, self.faster or self.patch is not None)

    def write(self, plot: bool = False) -> None:
        """The CSV, the summary, the tuned kernel and the curve."""
        timed = [e for e in self.found.evaluations if e.latency_ms is not None]
        if self.found.evaluations:
            try:
                write_csv(self.folder / "trials.csv", self.found.evaluations, self.space.space.names)
            except SpaceError:  # texts that a CSV cannot distinguish from other values
                write_t4(self.folder / "trials.json", self.found.evaluations, self.space.space.names)
        if self.kernel_path is not None:
            write_whole(self.kernel_path, self.found.source(self.job.kernel, self.job.problem))
        if plot and timed:
            from ...runtime.plots import write_search_plot

            title = f"{Path(self.job.reference).name} on {self.device}"
            write_search_plot(self.folder / "convergence.png", self.found, title)
        write_whole(self.folder / "summary.json", json.dumps(self.to_json(), indent=1) + "\n")

    @property
    def compared(self) -> list[Evaluation]:
        """Candidates for an autotuner's configs: the finalists, timed interleaved, otherwise all trials."""
        return [finalist for finalist in self.found.finals if finalist.config] or list(self.found.evaluations)

    @property
    def own(self) -> bool:
        """Whether the winner has the kernel's own constants."""
        best, present = self.found.best, self.job.kernel.config
        return best is not None and all(present[name] == value for name, value in best.config.items())

    @property
    def own_constants(self) -> Evaluation | None:
        """The evaluation of the kernel's own constants, timed with the finalists, with its config."""
        start, present = self.found.start, self.job.kernel.config
        own = {name: present[name] for name in self.space.space.names}
        return start.model_copy(update={"config": own}) if start is not None else None

    @property
    def faster(self) -> bool:
        """Whether the winner is significantly faster than the kernel's own constants, or these cannot be measured."""
        return not self.own and self.found.surely_faster

    @property
    def contention(self) -> float | None:
        """Cores that other processes kept busy while the winner or its baseline was timed."""
        timed = [e.contention for e in (self.found.best, self.found.start) if e and e.contention is not None]
        return max(timed, default=None)

    @property
    def unproven(self) -> str:
        """Reason why the winner is not a result, since its launches could not be replayed; '' if it is a result."""
        best = self.found.best
        return best.message if best is not None and not best.ok else ""

    @property
    def failure(self) -> str:
        """Why there is no winner."""
        found = self.found
        if not found.progress.trials:
            return f"nothing was tried: {found.stopped}; allow more"
        if found.best is not None:
            return ""
        status, times = found.progress.statuses.most_common(1)[0]
        first = next((e.message.splitlines()[0] for e in found.evaluations if e.status == status and e.message), "")
        own = found.start
        fix = "the unchanged kernel fails too: fix it first"
        advice = fix if own is not None and not own.ok else "widen --param: the unchanged kernel is correct"
        return (
            f"none of {found.progress.trials} configs is correct: {times} times {status}, first: {escape(first)}; all "
            f"are in {escape(str(self.journal))}; {advice}"
        )

    @property
    def warnings(self) -> list[str]:
        """Other processes, and a winner that does not count."""
        found = [] if self.contention is None else [busy(self.contention)]
        if self.unproven:
            found.append(f"unproven, so the kernel is not written: {self.unproven}; `require_replay` accepts it")
        return found

    @property
    def next_step(self) -> str:
        """The next step of an agent with the config."""
        if self.found.best is None:
            return "no config was correct: evaluate the unmodified kernel first"
        if self.kernel_path is not None:
            return "take over the kernel's file, or write best's config into the constants, and profile again"
        return "keep the constants: none is faster beyond noise; profile for another bottleneck"

    @property
    def failed_kernel(self) -> tuple[Kernel, Evaluation] | None:
        """A wrong config, if none is correct."""
        failed = next((trial for trial in self.found.evaluations if not trial.ok), None)
        if self.found.best is not None or failed is None:
            return None
        return self.job.kernel.bind(failed.config), failed

    def lines(self) -> Iterator[Any]:
        """The winner, its gain and speedups, and the files."""
        best = self.found.best
        assert best is not None
        config = Config({name: best.config[name] for name in self.space.space.names})
        yield Text.from_markup(f"best of {self.trials} trials: [bold]{escape(str(config))}[/]")
        if not self.faster:
            faster = ", [bold]not measurably faster than the kernel's own constants[/]"
        else:
            faster = f", [bold]{self.gain:.2f} times as fast[/] as the kernel's own constants" if self.gain else ""
        yield Text.from_markup(
            f"{best.latency_ms:.4f} ms{faster}; {best.speedup} against the reference{escape(beside_reference(best))}; "
            f"stopped: {escape(self.stopped)}"
        )
        if (sanitized := sanitizer_line(best)) is not None:
            yield sanitized
        yield from workload_lines(best.workloads, self.found.start.workloads if self.found.start else {})
        yield from file_lines(kernel=self.kernel_path, solution=self.solution, patch=self.patch, trials=self.folder)


def _row(evaluation: Evaluation) -> dict[str, Any]:
    return {"config": evaluation.config, **evaluation.metrics().to_json()}
