"""Expected gains of rules by kind of kernel, from earlier gains, which determine the order of rules."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from ..core import ArchivedRun
from .program.retrieval import operation_of

Prior = Callable[[str, Sequence[str]], float]
"""The expected speedup of a rule, by its name, on a kernel of these kinds, the narrowest first; `NEVER_HELPED` or less
where it never helped."""
Gains = Mapping[str, Mapping[str, float]]
"""The expected speedup by kind of kernel and rule."""

UNKNOWN = 1.1
"""Expected gain of a rule that was never tried on a kind of kernel, with the weight of one trial."""
ENOUGH = 3
"""Number of trials without a gain after which a rule is expected not to help."""
NEVER_HELPED = 1.0
MIN_GAIN = 1.02
MOST = 4.0
"""A larger gain counts as this: one kernel must not decide."""


def kinds_of(backend: str, work: str, operators: Sequence[str] = (), problem: str = "") -> tuple[str, ...]:
    """Return the kinds of a kernel, the narrowest first: its problem, its operation, its work.

    'triton streams softmax level1/1_23', 'triton streams softmax', 'triton streams'.
    """
    broad = f"{backend} {work}"
    narrow = f"{broad} {operation_of(operators) or 'unknown'}"
    return (f"{narrow} {problem}", narrow, broad)


def expected(tried: Iterable[float], before: float = UNKNOWN) -> float:
    """Return the expected speedup from gains so far, 0.0 for a failure. `before` is the expectation without them.

    `NEVER_HELPED` after `ENOUGH` trials of which none gained.
    """
    gains = list(tried)
    if len(gains) >= ENOUGH and max(gains) <= MIN_GAIN:
        return NEVER_HELPED
    # A slower kernel is not kept: it gains nothing and costs a trial.
    logs = [math.log(min(MOST, max(1.0, gain))) for gain in gains]
    return math.exp((math.log(before) + sum(logs)) / (1 + len(logs)))


def unknown(rule: str, kinds: Sequence[str]) -> float:
    """Return the expectation without records."""
    return UNKNOWN


def prior_of(gains: Gains) -> Prior:
    """Return the prior of a table: the narrowest kind on which a rule was tried counts."""

    def prior(rule: str, kinds: Sequence[str]) -> float:
        known = (gains[kind][rule] for kind in kinds if rule in gains.get(kind, {}))
        return next(known, UNKNOWN)

    return prior


def archived_gains(runs: Iterable[ArchivedRun], backend: str, device: str, problem: str) -> dict[str, dict[str, float]]:
    """Return the archive's expectations for kernels of a backend, for a run of a problem on a device.

    A rule's gains on all kernels of a kind set what is expected of it on narrower ones, and those on any device what
    is expected on this one: where little is known the broad record counts, where much is known its own.
    """
    tried: dict[tuple[str, ...], dict[str, list[tuple[float, bool]]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        kinds = kinds_of(backend, run.work, run.operators, run.problem)
        for item in run.tried if run.backend == backend else ():
            for depth in range(0 if run.problem == problem else 1, len(kinds)):
                tried[kinds[depth:]][item.technique].append((item.gain, run.device == device))
    found: dict[str, dict[str, float]] = {}
    for kinds in sorted(tried, key=len):
        broader = found.get(kinds[1], {}) if len(kinds) > 1 else {}
        gains = {rule: _on_device(item, broader.get(rule, UNKNOWN)) for rule, item in sorted(tried[kinds].items())}
        found[kinds[0]] = {rule: round(gain, 4) for rule, gain in gains.items()}
    return found


def _on_device(gains: Sequence[tuple[float, bool]], before: float) -> float:
    """Return the expected gains on this device, from gains on any device and whether they are from this one."""
    anywhere = expected((gain for gain, _ in gains), before)
    here = [gain for gain, same in gains if same]
    return expected(here, anywhere) if here and len(here) < len(gains) else anywhere
