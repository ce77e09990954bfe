"""The result of a parameter search: files, and a summary."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core import Evaluation, SearchSpace, SpaceError
from ..core.evidence import with_evidence
from ..core.files import write_whole
from ..tuners.discovery import FoundSpace
from ..tuners.formats import write_csv, write_t4
from ..tuners.search import Found
from .jobs import Job


@dataclass(frozen=True)
class TuneResult:
    """A finished search, and its files."""

    job: Job
    tuner: str
    seed: int
    space: FoundSpace
    pruned: SearchSpace
    found: Found
    folder: Path
    save: bool = True
    """Whether the tuned kernel is written."""
    solution: Path | None = None
    """The tuned kernel as a Solution, in the dataset of a recorded workload."""
    patch: Path | None = None
    """The result as a change of the user's own files; None where none was asked for, or nothing became faster."""

    def write(self, plot: bool = False) -> None:
        """The CSV, the summary, the tuned kernel and the curve."""
        timed = [e for e in self.found.evaluations if e.latency_ms is not None]
        if self.found.evaluations:
            try:
                write_csv(self.folder / "trials.csv", self.found.evaluations, self.pruned.names)
            except SpaceError:  # texts that a CSV cannot distinguish from other values
                write_t4(self.folder / "trials.json", self.found.evaluations, self.pruned.names)
        if self.kernel_path is not None:
            best, start = self.found.best, self.found.start
            assert best is not None
            source = self.job.kernel.bind(best.config).source
            text = with_evidence(source, self.job.problem, best, start if start and start.measurement else best)
            write_whole(self.kernel_path, text)
        if plot and timed:
            from .plots import write_search_plot

            title = f"{Path(self.job.reference).name} on {self.device}"
            write_search_plot(self.folder / "convergence.png", self.found, title)
        write_whole(self.folder / "summary.json", json.dumps(self.summary(), indent=1) + "\n")

    @property
    def compared(self) -> list[Evaluation]:
        """What an autotuner's configs are chosen from: the finalists, timed interleaved, or else all trials."""
        return [one for one in self.found.finals if one.config] or list(self.found.evaluations)

    @property
    def own(self) -> bool:
        """Whether the winner has the kernel's own constants."""
        best, present = self.found.best, self.job.kernel.config
        return best is not None and all(present[name] == value for name, value in best.config.items())

    @property
    def own_constants(self) -> Evaluation | None:
        """The evaluation of the kernel's own constants, timed beside the finalists, with its config."""
        start, present = self.found.start, self.job.kernel.config
        own = {name: present[name] for name in self.pruned.names}
        return start.model_copy(update={"config": own}) if start is not None else None

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
        gain = best.gain_over(start) if start is not None else None
        return gain.low > 1.0 if gain is not None else start is None or start.measurement is None

    @property
    def contention(self) -> float | None:
        """Cores that other processes kept busy while the winner, or what it is compared with, was timed."""
        timed = [e.contention for e in (self.found.best, self.found.start) if e and e.contention is not None]
        return max(timed, default=None)

    @property
    def unproven(self) -> str:
        """Why the winner does not count as a result: its launches could not be replayed; '' where it does."""
        best = self.found.best
        return best.message if best is not None and not best.ok else ""

    @property
    def kernel_path(self) -> Path | None:
        """Where the tuned kernel stands; None where there is none to write."""
        best, short = self.found.best, self.job.problem.id.rsplit("/", 1)[-1]
        if not self.save or best is None or not self.faster or self.unproven:
            return None
        # A disturbed gain does not go into the file name.
        figure = f"_{self.gain:.3f}x" if self.gain and self.contention is None else ""
        return self.folder / f"{short}_tuned{figure}.py"

    def summary(self) -> dict[str, Any]:
        """The result as plain data; times in milliseconds."""
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
            "start": start.metrics().to_json() if start else None,
            "best": {"config": best.config, **best.metrics().to_json()} if best else None,
            "best_so_far": {"config": leader.config, "latency_ms": leader.latency_ms} if leader else None,
            "times_as_fast": self.gain,
            "finalists": [{"config": final.config, **final.metrics().to_json()} for final in self.found.finals],
            "kernel": str(self.kernel_path) if self.kernel_path else None,
            **({"patch": str(self.patch)} if self.patch else {}),
            "journal": str(self.folder / "journal.jsonl"),
        }

    @property
    def environment(self) -> dict[str, str]:
        """The device and the versions, from an evaluation; a failed one has them too."""
        noted = (evaluation.environment for evaluation in (*self.found.finals, *self.found.evaluations))
        return next(filter(None, noted), {})

    @property
    def device(self) -> str:
        """The device's name, or the user's name for it where no evaluation has one."""
        return self.environment.get("device", self.job.device)


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
