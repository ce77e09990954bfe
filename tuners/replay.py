"""A search over a recording: simulates a tuner without a device."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..core import Config, OptionError, SearchSpace, Tuner
from .recording import Recording

SHARES = (0.95, 0.99)
"""Shares of the best config's speed by which searches are compared."""

MakeTuner = Callable[[SearchSpace, int], Tuner]


@dataclass(frozen=True)
class Replay:
    """One search, from one seed."""

    budget: int
    size: int
    """Configs in the space."""
    best_ms: float
    """The best time of the space, found or not."""
    curve: tuple[float, ...]
    """Best time in milliseconds after each unique evaluation; infinite before the first success."""
    seconds: float
    """Seconds spent in the tuner's ask and tell."""

    def evaluations_to(self, share: float) -> int | None:
        """Return the unique evaluations until a config had this share of the best one's speed, or None."""
        enough_ms = self.best_ms / share * (1 + 1e-12)
        return next((number for number, best in enumerate(self.curve, start=1) if best <= enough_ms), None)

    @property
    def found_ms(self) -> float:
        """The best time found; infinite when every config failed."""
        return self.curve[-1] if self.curve else math.inf

    @property
    def overhead_ms(self) -> float:
        """The tuner's own ms per unique evaluation."""
        return 1e3 * self.seconds / max(1, len(self.curve))


def replay(
    recording: Recording,
    make_tuner: MakeTuner,
    seed: int,
    budget: int,
    batch: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> Replay:
    """Run a tuner until it found the best config, has evaluated `budget` different ones, or has none left.

    It is asked for `batch` configs at a time, and gets all their results before the next request. A repeated config
    costs nothing; a tuner that asks for nothing new `budget` times in a row has none left.
    """
    if min(budget, batch) < 1:
        raise OptionError(f"a replay needs a budget and a batch of at least 1, not {budget} and {batch}")
    tuner = make_tuner(recording.space, seed)
    best_ms = recording.best[1]
    evaluated: set[Config] = set()
    curve: list[float] = []
    found, seconds, stale = math.inf, 0.0, 0
    while len(curve) < budget and stale < budget and found > best_ms * (1 + 1e-9):
        started = clock()
        configs = tuner.ask(min(batch, budget - len(curve)))
        seconds += clock() - started
        if not configs:
            break
        for config in configs:
            evaluation = recording.evaluation(config)
            started = clock()
            tuner.tell(config, evaluation)
            seconds += clock() - started
            if config in evaluated:
                stale += 1
                continue
            stale = 0
            evaluated.add(config)
            found = min(found, math.inf if evaluation.latency_ms is None else evaluation.latency_ms)
            curve.append(found)
    return Replay(budget, recording.space.size, best_ms, tuple(curve), seconds)


Summary = dict[str, float | int | None]


def summarize(replays: Sequence[Replay]) -> Summary:
    """Summarize a tuner's results over several seeds of one recording.

    A seed that did not reach a level counts as infinitely many evaluations; an infinite metric is None. The 90th
    percentile is the smallest value that nine tenths of the seeds do not exceed.
    """
    if not replays:
        raise OptionError("there are no replays to summarize; give at least one seed")
    summary: Summary = {}
    for share in SHARES:
        needed = sorted(math.inf if n is None else n for n in (r.evaluations_to(share) for r in replays))
        percent = round(100 * share)
        summary[f"median_evaluations_to_{percent}"] = _finite(statistics.median(needed))
        summary[f"p90_evaluations_to_{percent}"] = _finite(needed[-(-9 * len(needed) // 10) - 1])
        summary[f"reached_{percent}"] = sum(map(math.isfinite, needed)) / len(needed)
    return summary | {
        "seeds": len(replays),
        "budget": replays[0].budget,
        "best_ms": replays[0].best_ms,
        "median_best_ms": _finite(statistics.median(r.found_ms for r in replays)),
        "overhead_ms_per_trial": statistics.median(r.overhead_ms for r in replays),
        "configs": replays[0].size,
    }


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
