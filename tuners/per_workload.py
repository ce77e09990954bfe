"""A search for several configs: one for each set of workloads that an autotuner can tell apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..core import Config, Evaluation, Measurement, Tuner
from ..core.workload_rows import time_at


def per_workload(make: Callable[[Sequence[str]], Tuner], sets: Sequence[Sequence[str]]) -> Tuner:
    """Return one tuner over tuners of each set of workloads, or an ordinary tuner if workloads are not distinguished.

    `make` gets the names of a set, or none for all workloads.
    """
    return TunerPerWorkload([(make(names), names) for names in sets]) if len(sets) > 1 else make(())


class TunerPerWorkload:
    """Tuners that take turns, each with the times at its own workloads only.

    What is fast for one decoded token is slow for a prompt: by its mean over both, a config that is the fastest at one
    of them looks like any other. Each tuner learns from every trial, so that none is asked for twice.
    """

    def __init__(self, tuners: Sequence[tuple[Tuner, Sequence[str]]]) -> None:
        """Each tuner with the names of its workloads."""
        self._tuners = list(tuners)
        self._asked: set[Config] = set()

    def ask(self, n: int = 1) -> list[Config]:
        """Return up to n new configs; empty if no tuner has any left."""
        asked: list[Config] = []
        out = 0
        while len(asked) < n and out < len(self._tuners):
            config = self._next(self._tuners[0][0])
            self._tuners.append(self._tuners.pop(0))
            out = out + 1 if config is None else 0
            asked += [] if config is None else [config]
        return asked

    def tell(self, config: Config, evaluation: Evaluation) -> None:
        """Learn the times of a config, or that it fails."""
        self._asked.add(config)
        for tuner, names in self._tuners:
            tuner.tell(config, _at(evaluation, names))

    def _next(self, tuner: Tuner) -> Config | None:
        while found := tuner.ask(1):
            if found[0] not in self._asked:
                self._asked.add(found[0])
                return found[0]
        return None


def _at(evaluation: Evaluation, names: Sequence[str]) -> Evaluation:
    """Return an evaluation with its time at some workloads."""
    time, whole = time_at(evaluation, names), evaluation.measurement
    if whole is None:
        return evaluation
    there = Measurement(samples_ms=(time,), method=whole.method, warmup=whole.warmup) if time else None
    return evaluation.model_copy(update={"measurement": there, "reference": None})
