"""Searches and screenings of a run. Each is made once, and has its own journal."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..core import (
    Budget,
    Config,
    Evaluation,
    Journal,
    Kernel,
    KernelRecord,
    Problem,
    Profile,
    Screener,
    SearchSpace,
    Trial,
)
from ..core.events import Event, TrialDone
from ..core.text import digest_of
from ..tuners.search import FINAL, FINALISTS, SEARCHED, Found, Search
from ..tuners.source_products import seen_in
from .parallel import SingleFlight

TUNING = "_tune_"
"""Separator between the name of a run's journal and that of one of its searches."""
FEW_FINALISTS = 2
Variant = tuple[Kernel, Config]
"""A kernel, and the values of its parameters."""
Borrow = Callable[[], contextlib.AbstractContextManager[Screener]]


@dataclass(frozen=True)
class WantedSearch:
    """A search of a kernel's parameters."""

    kernel: Kernel
    space: SearchSpace
    tuner: str
    trials: int
    seconds: float | None = None
    patience: int | None = None
    """If given, the search is a short one: it ends after this many trials in a row without improvement, and compares
    few finalists."""
    known: Evaluation | None = None
    """A quick evaluation of the unmodified kernel, which the search need not repeat."""
    left: int | None = None
    """Trials left in the run's budget; running out ends the search, as `seconds` does."""

    @property
    def budget(self) -> Budget:
        """The search's limits."""
        return Budget(trials=self.trials if self.left is None else min(self.trials, self.left), seconds=self.seconds)

    @property
    def at(self) -> Config:
        """The kernel's own values of the searched parameters."""
        return Config({name: self.kernel.config[name] for name in self.space.names})

    @property
    def name(self) -> str:
        """16 hexadecimal digits. The number of trials is included: a resumed run must repeat each search."""
        return digest_of(f"{self.kernel.digest}{self.space!r}{self.tuner}{self.trials}")


class Searches:
    """Makes the searches of a run, or reads them from the journals of an earlier run.

    A search or screening that several lanes ask for is made by the first; the others wait for it. `borrow` gives an
    evaluator for searches in the place of one of the run's: on a CPU, where there is one, nothing runs beside it.
    """

    def __init__(
        self,
        problem: Problem,
        journal: Path,
        borrow: Borrow,
        profile: Callable[[], Profile],
        count: Callable[[str, Evaluation], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._problem = problem
        self._journal = journal
        self._borrow = borrow
        self._profile = profile
        self._count = count
        self._tuned = SingleFlight[Found]()
        self._screened = SingleFlight[list[Evaluation]]()

    def names(self) -> set[str]:
        """The names of all searches so far."""
        return self._tuned.names()

    def tune(self, wanted: WantedSearch, origin: str) -> Found:
        """Search with one of the tuners, with compilation ahead and a final comparison.

        A search that came to its comparison has ended, whatever ended it: a resumed run takes it as it was.
        """
        kernel, space, name = wanted.kernel, wanted.space, wanted.name

        def search() -> Found:
            from ..tuners.by_launch.creation import tuner_for  # with it comes numpy, which would delay the first kernel

            profile = seen_in(self._profile(), kernel)
            with self._borrow() as evaluator, Journal(self._path(name)) as journal:
                start = [space.default, *kernel.configs_in(space)]
                trials = list(journal.of(Trial))
                ended = any(trial.origin == FINAL and trial.evaluation.measured for trial in trials)
                if not trials and wanted.known is not None and space.default == wanted.at:
                    # The config that it duplicates is not in this search.
                    update = {"config": dict(space.default), "duplicate_of": None}
                    first = wanted.known.model_copy(update=update)
                    journal.append(Trial.now(SEARCHED, first, 0.0))
                return Search(
                    self._problem,
                    kernel,
                    space,
                    tuner_for(kernel, wanted.tuner, space, start=start, profile=profile),
                    evaluator,
                    journal,
                    Budget(trials=0) if ended else wanted.budget,
                    partial(self._tell, origin),
                    wanted.patience,
                    self._clock,
                    finalists=FINALISTS if wanted.patience is None else FEW_FINALISTS,
                ).run()

        return self._tuned.get(name, search)

    def _tell(self, origin: str, event: Event) -> None:
        """Count a search's trials as the run's."""
        if isinstance(event, TrialDone):
            self._count(origin, event.evaluation)

    def screen(
        self, variants: Sequence[Variant], origins: Sequence[str], late: Callable[[], str | None]
    ) -> list[Evaluation]:
        """Evaluate kernels quickly, the first of which works; fewer where the run's time is over before the last.

        Times compare with each other only.
        """
        name = digest_of("screen".join(kernel.bind(at).digest for kernel, at in variants))

        def screen() -> list[Evaluation]:
            with Journal(self._path(name)) as journal:
                trials = [trial for trial in journal.of(Trial) if trial.evaluation.measured]
                known = {_key(trial.evaluation): trial.evaluation for trial in trials}
                found = [known.get((kernel.digest, config)) for kernel, config in variants]
                for origin, evaluation in zip(origins, found, strict=True):
                    if evaluation is not None:
                        self._count(origin, evaluation)
                missing = [place for place, evaluation in enumerate(found) if evaluation is None]
                if missing:
                    self._measure(journal, variants, origins, missing, found, late)
                return [item for item in found if item is not None]

        return self._screened.get(name, screen)

    def _measure(
        self,
        journal: Journal,
        variants: Sequence[Variant],
        origins: Sequence[str],
        missing: Sequence[int],
        found: list[Evaluation | None],
        late: Callable[[], str | None],
    ) -> None:
        bound = [variants[place][0].bind(variants[place][1]) for place in missing]
        last = time.monotonic()
        with self._borrow() as evaluator, contextlib.closing(evaluator.screen(self._problem, bound)) as evaluations:
            for place, measured in zip(missing, evaluations, strict=True):
                kernel, config = variants[place]
                evaluation = measured.model_copy(update={"kernel_digest": kernel.digest, "config": dict(config)})
                now = time.monotonic()
                journal.append(KernelRecord(digest=kernel.digest, source=kernel.source))
                journal.append(Trial.now(origins[place], evaluation, now - last))
                found[place], last = evaluation, now
                self._count(origins[place], evaluation)
                if late():
                    return

    def _path(self, name: str) -> Path:
        return self._journal.with_name(f"{self._journal.stem}{TUNING}{name}.jsonl")


def _key(evaluation: Evaluation) -> tuple[str, Config]:
    return evaluation.kernel_digest, Config(evaluation.config)
