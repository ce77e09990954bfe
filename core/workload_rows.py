"""Evaluations at several workloads as one, and the rule that no workload may lose."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from .evaluation import Evaluation
from .measurement import Measurement
from .verdict import Status

MOST_LOST = 0.02
"""The share of its speed that a workload may lose against the start."""


def merged(rows: Mapping[str, Evaluation]) -> Evaluation:
    """Return one evaluation for those of a kernel at several workloads, by name.

    Its status is the first that is not correct, or else the first that is not proven; its times are geometric means,
    quantile by quantile; `workloads` has a row for each.
    """
    first = next(iter(rows.values()))
    metrics = {name: row.metrics() for name, row in rows.items()}
    failed = next(((name, row) for name, row in rows.items() if not row.correct), None)
    if failed is not None:
        name, row = failed
        return row.model_copy(update={"message": f"at {name}: {row.message}", "workloads": metrics})
    evaluations = list(rows.values())
    noted = next((row for row in evaluations if row.replay and not row.replay.replayed), first)
    unproven = next(((name, row) for name, row in rows.items() if not row.ok), None)
    contended = [row.contention for row in evaluations if row.contention is not None]
    shared = set[str].intersection(*(set(row.baselines) for row in evaluations))
    worst = max(evaluations, key=lambda row: row.correctness.max_rel_error if row.correctness else 0.0)
    return first.model_copy(
        update={
            "measurement": _mean([row.measurement for row in evaluations]),
            "reference": _mean([row.reference for row in evaluations]),
            "baselines": {
                name: mean for name in shared if (mean := _mean([row.baselines[name] for row in evaluations]))
            },
            "default_is_reference": all(row.default_is_reference for row in evaluations),
            "correctness": worst.correctness,
            "contention": max(contended, default=None),
            "replay": unproven[1].replay if unproven else noted.replay,
            **({"status": Status.UNPROVEN, "message": f"at {unproven[0]}: {unproven[1].message}"} if unproven else {}),
            "compile_s": sum(row.compile_s or 0.0 for row in evaluations),
            "code_digest": None,
            "duplicate_of": None,
            "workloads": metrics,
        }
    )


def loses(evaluation: Evaluation, start: Evaluation | None) -> str | None:
    """Return which workload is slower than at the start by more than `MOST_LOST`, in words, or None.

    Where both were timed beside the reference, speedups are compared: the machine's speed may have changed between.
    """
    if start is None or (evaluation.kernel_digest, evaluation.config) == (start.kernel_digest, start.config):
        return None
    for name, row in evaluation.workloads.items():
        before = start.workloads.get(name)
        if before is None or row.latency_ms is None or before.latency_ms is None:
            continue
        if row.speedup is not None and before.speedup is not None:
            ratio = row.speedup / before.speedup
        else:
            ratio = before.latency_ms / row.latency_ms
        if ratio < 1 - MOST_LOST:
            slower = f"{name} is {1 / ratio - 1:.1%} slower than at the start"
            return f"{slower}, and no workload may lose more than {MOST_LOST:.0%}"
    return None


def workloads_by_key(keys: Mapping[str, str]) -> list[list[str]]:
    """Return the names of workloads with the same key, for each key."""
    return [[name for name in keys if keys[name] == key] for key in dict.fromkeys(keys.values())]


def time_at(evaluation: Evaluation, names: Sequence[str]) -> float | None:
    """Return the geometric mean of the times at some workloads, in ms; None unless all were timed."""
    rows = [evaluation.workloads[name].latency_ms for name in names if name in evaluation.workloads]
    times = [row for row in rows if row]
    return statistics.geometric_mean(times) if evaluation.ok and times and len(times) == len(names) else None


def _mean(measurements: Sequence[Measurement | None]) -> Measurement | None:
    """Return the geometric mean: of the fastest samples, of the next ones, and so on. None unless all were timed.

    They are in the order of the measurement that is known least: its interval depends on how it drifted.
    """
    timed = [item for item in measurements if item is not None]
    if len(timed) < len(measurements):
        return None
    count = min(len(item.samples_ms) for item in timed)
    ranked = [_quantiles(sorted(item.samples_ms), count) for item in timed]
    means = [statistics.geometric_mean(samples) for samples in zip(*ranked, strict=True)]
    least = max(timed, key=lambda one: (one.interval_ms[1] - one.interval_ms[0]) / one.median_ms).samples_ms
    drifted = [least[len(least) * number // count] for number in range(count)]
    rank = {place: rank for rank, place in enumerate(sorted(range(count), key=drifted.__getitem__))}
    samples = tuple(means[rank[place]] for place in range(count))
    return Measurement(samples_ms=samples, method=timed[0].method, warmup=timed[0].warmup)


def _quantiles(ordered: Sequence[float], count: int) -> list[float]:
    """Return so many values that are spread evenly over the ordered ones, the median in the middle."""
    step = (len(ordered) - 1) / (count - 1) if count > 1 else 0.0
    first = 0.0 if count > 1 else (len(ordered) - 1) / 2
    places = [first + step * i for i in range(count)]
    return [_between(ordered, place) for place in places]


def _between(ordered: Sequence[float], place: float) -> float:
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
