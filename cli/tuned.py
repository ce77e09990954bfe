"""What a parameter search leaves: files, a summary, and the result in words."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.markup import escape

from ..core import Config, Evaluation, SearchSpace, SpaceError
from ..core.evidence import with_evidence
from ..core.files import write_whole
from ..core.text import first_line
from ..tuners.discovery import FoundSpace
from ..tuners.formats import write_csv, write_t4
from ..tuners.search import Found
from . import wiring
from .optimize import metrics
from .render import Screen, busy


@dataclass(frozen=True)
class Tuned:
    """A search that ended, and what it leaves."""

    job: wiring.Job
    tuner: str
    seed: int
    space: FoundSpace
    pruned: SearchSpace
    found: Found
    folder: Path
    save: bool = True
    """Whether the tuned kernel is written."""

    def write(self, plot: bool = False) -> None:
        """The CSV, the summary, the tuned kernel and the curve."""
        timed = [e for e in self.found.evaluations if e.latency_ms is not None]
        if self.found.evaluations:
            try:
                write_csv(self.folder / "trials.csv", self.found.evaluations, self.pruned.names)
            except SpaceError:  # texts that a CSV cannot tell from other values
                write_t4(self.folder / "trials.json", self.found.evaluations, self.pruned.names)
        if self.kernel_path is not None:
            best, start = self.found.best, self.found.start
            assert best is not None
            source = self.job.kernel.bind(best.config).source
            text = with_evidence(source, self.job.problem, best, start if start and start.measurement else best)
            write_whole(self.kernel_path, text)
        if plot and timed:
            from .plot import plot_convergence

            plot_convergence(self.folder / "convergence.png", self.found, Path(self.job.reference).name, self.device)
        write_whole(self.folder / "summary.json", json.dumps(self.summary(), indent=1) + "\n")

    @property
    def own(self) -> bool:
        """Whether the winner has the kernel's own constants."""
        best, present = self.found.best, self.job.kernel.config
        return best is not None and all(present[name] == value for name, value in best.config.items())

    @property
    def gain(self) -> float | None:
        """How many times as fast as the kernel's own constants."""
        best, start = self.found.best, self.found.start
        if self.own:
            return 1.0  # one code, timed twice: what differs is noise
        return start.latency_ms / best.latency_ms if best and start and best.latency_ms and start.latency_ms else None

    @property
    def faster(self) -> bool:
        """Whether the winner beats the kernel's own constants beyond doubt, or these cannot be measured."""
        best, start = self.found.best, self.found.start
        if best is None or self.own:
            return False
        if best.speedup and start and start.speedup:
            return best.speedup.low > start.speedup.high
        return self.gain is None or self.gain > 1.0

    @property
    def contention(self) -> float | None:
        """Cores that other processes kept busy while the winner, or what it is compared with, was timed."""
        timed = [e.contention for e in (self.found.best, self.found.start) if e and e.contention is not None]
        return max(timed, default=None)

    @property
    def kernel_path(self) -> Path | None:
        """Where the tuned kernel stands; None where there is none to write."""
        best, short = self.found.best, self.job.problem.id.rsplit("/", 1)[-1]
        if not self.save or best is None or not self.faster:
            return None
        # A gain that other processes disturbed is nothing to put a name on.
        figure = f"_{self.gain:.3f}x" if self.gain and self.contention is None else ""
        return self.folder / f"{short}_tuned{figure}.py"

    def summary(self) -> dict[str, Any]:
        """The object that --json prints."""
        progress, best, start = self.found.progress, self.found.best, self.found.start
        leader = progress.best
        return {
            "problem": self.job.problem.id,
            "workload": self.job.problem.workload,
            "backend": self.job.backend,
            "device": self.device,
            "environment": self.environment,
            "tuner": self.tuner,
            "seed": self.seed,
            "space": {
                "origin": self.space.origin,
                "size": count(self.pruned),
                "pruned": ruled_out(self.space, self.pruned),
            },
            "trials": progress.trials,
            "recalled": progress.recalled,
            "failed": progress.failed,
            "duplicates": progress.duplicates,
            "statuses": {status.value: count for status, count in progress.statuses.items()},
            "seconds": round(progress.seconds, 3),
            "stopped": self.found.stopped,
            "start": metrics(start) if start else None,
            "best": {"config": best.config, **metrics(best)} if best else None,
            "best_so_far": {"config": leader.config, "latency_ms": leader.latency_ms} if leader else None,
            "times_as_fast": self.gain,
            "finalists": [{"config": final.config, **metrics(final)} for final in self.found.finals],
            "kernel": str(self.kernel_path) if self.kernel_path else None,
            "journal": str(self.folder / "journal.jsonl"),
        }

    @property
    def environment(self) -> dict[str, str]:
        """The device and the versions, as an evaluation notes them; a config that fails tells them too."""
        noted = (evaluation.environment for evaluation in (*self.found.finals, *self.found.evaluations))
        return next(filter(None, noted), {})

    @property
    def device(self) -> str:
        """The device's name, or what the user calls it where no evaluation tells."""
        return self.environment.get("device", self.job.device)

    def show(self, screen: Screen) -> None:
        """The result in words; a failure on standard error."""
        found, best = self.found, self.found.best
        journal = escape(str(self.folder / "journal.jsonl"))
        if not found.progress.trials:
            screen.errors.print(f"[red]failed:[/] nothing was tried: {found.stopped}; allow more")
        elif best is None:
            status, times = found.progress.statuses.most_common(1)[0]
            first = next((first_line(e.message) for e in found.evaluations if e.status == status and e.message), "")
            screen.errors.print(
                f"[red]failed:[/] none of {found.progress.trials} configs is right: {times} times {status}, "
                f"first: {escape(first)}; all are in {journal}; {self._advice}"
            )
        else:
            self._show_best(screen, best)

    @property
    def _advice(self) -> str:
        """What to do when no config is right."""
        start = self.found.start
        if start is not None and not start.ok:
            return "the kernel as it stands fails too: mend it first"
        return "widen --param: the kernel as it stands is right"

    def _show_best(self, screen: Screen, best: Evaluation) -> None:
        found = self.found
        shown = Config({name: best.config[name] for name in self.pruned.names})
        screen.console.print(f"best of {found.progress.trials} trials: [bold]{escape(str(shown))}[/]")
        if not self.faster:
            faster = ", [bold]not measurably faster than the kernel's own constants[/]"
        else:
            faster = f", [bold]{self.gain:.2f} times as fast[/] as the kernel's own constants" if self.gain else ""
        screen.console.print(
            f"{best.latency_ms:.4f} ms{faster}; {best.speedup} against the reference; stopped: {found.stopped}"
        )
        if self.contention is not None:
            screen.warn(busy(self.contention))
        for what, path in (("kernel", self.kernel_path), ("trials", self.folder)):
            if path is not None:
                screen.console.print(f"{what}: {escape(str(path))}")


def count(space: SearchSpace) -> int | None:
    """The configs of a space; None when they are too many to count."""
    members = space.encoded.members
    return None if members is None else len(members)


def ruled_out(found: FoundSpace, pruned: SearchSpace) -> int | None:
    """Configs that the device rules out; None when they are too many to count."""
    if pruned is found.space:
        return 0
    before, after = count(found.space), count(pruned)
    return None if before is None or after is None else before - after
