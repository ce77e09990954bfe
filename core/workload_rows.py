"""Merges evaluations at several workloads, and checks that no workload becomes slower."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .evaluation import CLEAN, Evaluation
from .measurement import Measurement
from .space import Config
from .verdict import Status

MOST_LOST = 0.02
"""Fraction of its speed that a workload may lose against the start."""


def merged(rows: Mapping[str, Evaluation]) -> Evaluation:
    """Merge the evaluations of a kernel at several workloads, by name.

    The status is the first that is not correct, otherwise the first that is not proven. Times are geometric means,
    quantile by quantile. `workloads` has a row for each workload.
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
            "sanitizer": _sanitizer(rows),
            "compile_s": sum(row.compile_s or 0.0 for row in evaluations),
            "code_digest": None,
            "duplicate_of": None,
            "launches_ms": {},
            "workloads": metrics,
        }
    )


def _sanitizer(rows: Mapping[str, Evaluation]) -> dict[str, str]:
    """Return for each tool its first result that is not clean, over the workloads where it ran."""
    results: dict[str, dict[str, str]] = {}
    for name, row in rows.items():
        for tool, said in row.sanitizer.items():
            results.setdefault(tool, {}).setdefault(said, name)
    return {tool: _worst(said) for tool, said in results.items()}


def _worst(said: Mapping[str, str]) -> str:
    """Return the first result that is not clean, with its workload unless all results are equal."""
    first = next((text for text in said if text != CLEAN), CLEAN)
    return first if len(said) == 1 else f"at {said[first]}: {first}"


def loses(evaluation: Evaluation, start: Evaluation | None) -> str | None:
    """Describe a workload that is slower than at the start by more than `MOST_LOST`, or return None.

    If both were timed with the reference, speedups are compared, since the machine's speed may have changed in between.
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


@dataclass(frozen=True)
class WorkloadKeys:
    """Keys that distinguish workloads in a user's function: workloads with equal keys must share a config."""

    autotuner: Mapping[str, str] = field(default_factory=dict)
    """The keys of its autotuners."""
    sizes: Mapping[str, str] = field(default_factory=dict)
    """The sizes beside its launches."""

    @property
    def sets(self) -> list[list[str]]:
        """The workloads that share a config, for each config."""
        names = self.autotuner or self.sizes
        return workloads_by_key({name: f"{self.autotuner.get(name)} {self.sizes.get(name)}" for name in names})


def joined_keys(first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, str]:
    """Return keys that are equal where either has equal ones."""
    found: dict[str, str] = {}
    for name in first:
        same = {key for other, key in found.items() if first[other] == first[name] or second[other] == second[name]}
        found = {other: name if key in same else key for other, key in found.items()}
        found[name] = name
    return found


def time_at(evaluation: Evaluation, names: Sequence[str]) -> float | None:
    """Return the geometric mean of the times at some workloads, in ms; None unless all were timed."""
    rows = [evaluation.workloads[name].latency_ms for name in names if name in evaluation.workloads]
    times = [row for row in rows if row]
    return statistics.geometric_mean(times) if evaluation.ok and times and len(times) == len(names) else None


def configs_by_workload(
    best: Evaluation, evaluations: Sequence[Evaluation], keys: Mapping[str, str]
) -> dict[str, Config]:
    """Return the config for each workload, the same for those with equal keys.

    It is the best one, unless another is faster there by more than noise.
    """
    whole = Config(best.config)
    found: dict[str, Config] = {}
    for names in workloads_by_key(keys):
        times = {Config(item.config): time for item in evaluations if (time := time_at(item, names)) is not None}
        own = times.get(whole, time_at(best, names))
        config = min(times, key=times.__getitem__, default=whole)
        faster = own is not None and config in times and times[config] < (1 - MOST_LOST) * own
        found |= dict.fromkeys(names, config if faster else whole)
    return found


def _mean(measurements: Sequence[Measurement | None]) -> Measurement | None:
    """Return the geometric mean of the fastest samples, of the next ones, and so on; None unless all were timed.

    They are in the order of the least precise measurement, since its interval depends on its drift.
    """
    timed = [item for item in measurements if item is not None]
    if len(timed) < len(measurements):
        return None
    count = min(len(item.samples_ms) for item in timed)
    ranked = [_quantiles(sorted(item.samples_ms), count) for item in timed]
    means = [statistics.geometric_mean(samples) for samples in zip(*ranked, strict=True)]
    least = max(
        timed, key=lambda measurement: (measurement.interval_ms[1] - measurement.interval_ms[0]) / measurement.median_ms
    ).samples_ms
    drifted = [least[len(least) * number // count] for number in range(count)]
    rank = {place: rank for rank, place in enumerate(sorted(range(count), key=drifted.__getitem__))}
    samples = tuple(means[rank[place]] for place in range(count))
    return Measurement(samples_ms=samples, method=timed[0].method, warmup=timed[0].warmup)


def _quantiles(ordered: Sequence[float], count: int) -> list[float]:
    """Return `count` values that are spread evenly over the ordered ones, with the median in the middle."""
    step = (len(ordered) - 1) / (count - 1) if count > 1 else 0.0
    first = 0.0 if count > 1 else (len(ordered) - 1) / 2
    places = [first + step * i for i in range(count)]
    return [_between(ordered, place) for place in places]


def _between(ordered: Sequence[float], place: float) -> float:
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
