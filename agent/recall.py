"""An evaluator that remembers: what the journal holds is not measured again."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable
from datetime import UTC, datetime

from pydantic import ValidationError

from ..core import Config, Evaluation, Evaluator, Journal, JournalError, Kernel, Problem, Profile, Trial
from ..core.trial import read_trials


class Recalling:
    """Puts every evaluation into a journal, and takes from it what an earlier run left there.

    `origin` is written with each trial; whoever evaluates sets it first.

    The same kernel and config may be measured more than once in a run (first, and again at the end); the
    records are handed out in the order in which they were made.
    """

    def __init__(self, evaluator: Evaluator, journal: Journal) -> None:
        self._evaluator = evaluator
        self._journal = journal
        self._known: dict[tuple[str, Config], list[Evaluation]] = {}
        self._profile = _profile(journal)
        self.origin = ""
        self.recalled = 0
        for trial in read_trials(journal.records, journal.path):
            self._known.setdefault(_key(trial.evaluation), []).append(trial.evaluation)

    def evaluate(self, problem: Problem, kernel: Kernel, configs: Iterable[Config]) -> Generator[Evaluation]:
        """See `core.Evaluator`."""
        for config in configs:
            known = self._known.get((kernel.digest, config))
            if known:
                self.recalled += 1
                yield known.pop(0)
                continue
            start = time.monotonic()
            for evaluation in self._evaluator.evaluate(problem, kernel, [config]):
                self._remember_source(kernel)
                trial = Trial(
                    origin=self.origin,
                    evaluation=evaluation,
                    seconds=time.monotonic() - start,
                    at=datetime.now(UTC).isoformat(timespec="seconds"),
                )
                self._journal.append(trial.record())
                yield evaluation

    def profile(self, problem: Problem) -> Profile:
        """See `core.Evaluator`."""
        if self._profile is None:
            self._profile = self._evaluator.profile(problem)
            self._journal.append({"kind": "profile", "profile": self._profile.model_dump(mode="json")})
        return self._profile

    def _remember_source(self, kernel: Kernel) -> None:
        if all(record["digest"] != kernel.digest for record in self._journal.of_kind("kernel")):
            self._journal.append({"kind": "kernel", "digest": kernel.digest, "source": kernel.source})


def _profile(journal: Journal) -> Profile | None:
    """The profile that an earlier run wrote down, the latest of several."""
    found = None
    for line, record in enumerate(journal.records, start=1):
        if record.get("kind") == "profile":
            try:
                found = Profile.model_validate(record.get("profile"))
            except ValidationError:
                raise JournalError(
                    f"{journal.path}, line {line} is no valid profile; mend or remove that line"
                ) from None
    return found


def _key(evaluation: Evaluation) -> tuple[str, Config]:
    return evaluation.kernel_digest, Config(evaluation.config)
