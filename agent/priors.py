"""What a rule may gain on a kind of kernel, from what it gained before: the order in which rules are tried."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from pydantic import ValidationError

from ..core import TurnRecord

Prior = Callable[[str, str], float]
"""The expected speedup of a rule, by its name, on a kind of kernel; `NEVER_HELPED` or less where it never helped."""
Gains = Mapping[str, Mapping[str, float]]
"""The expected speedup by kind of kernel and rule."""

UNKNOWN = 1.1
"""Expected of a rule that was never tried on a kind of kernel: as much as one more trial counts."""
ENOUGH = 3
"""Trials without a gain after which a rule counts as one that never helped."""
NEVER_HELPED = 1.0
HELPED = 1.02
MOST = 4.0
"""A larger gain counts as this: one kernel must not decide."""


def kind_of(backend: str, work: str) -> str:
    """Return the kind of a kernel: 'triton streams', 'tilelang_cpu products'."""
    return f"{backend} {work}"


def expected(tried: Iterable[float]) -> float:
    """Return the expected speedup from the gains so far, 0.0 for a failure; `NEVER_HELPED` at most without any."""
    gains = list(tried)
    if len(gains) >= ENOUGH and max(gains) <= HELPED:
        return NEVER_HELPED
    # A slower kernel is not kept: it gains nothing and costs a trial.
    logs = [math.log(min(MOST, max(1.0, gain))) for gain in gains]
    return math.exp((math.log(UNKNOWN) + sum(logs)) / (1 + len(logs)))


def unknown(rule: str, kind: str) -> float:
    """Return what is expected without any record."""
    return UNKNOWN


def prior_of(gains: Gains) -> Prior:
    """Return the prior of a table."""
    return lambda rule, kind: gains.get(kind, {}).get(rule, UNKNOWN)


def recorded_gains(logs: Path, backend: str) -> dict[str, dict[str, float]]:
    """Return what the runs in a results folder say about kernels of a backend.

    What cannot be read is passed over: it is no part of this run.
    """
    tried: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(logs.glob(f"optimization_history_*_{backend}.json")):
        for turn in _turns(path):
            kind = kind_of(backend, turn.analysis.work)
            for attempt in turn.attempts:
                if attempt.gain is not None and "+" not in attempt.strategy:
                    tried[kind][attempt.strategy].append(attempt.gain)
    return {
        kind: {rule: round(expected(gains), 4) for rule, gains in sorted(rules.items())}
        for kind, rules in sorted(tried.items())
    }


def _turns(path: Path) -> list[TurnRecord]:
    try:
        return [TurnRecord.model_validate(one, extra="ignore") for one in json.loads(path.read_text())]
    except (OSError, ValueError, TypeError, ValidationError):
        return []
