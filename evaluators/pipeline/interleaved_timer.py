"""Times candidates interleaved with the reference, and records how reliable the times are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core import Measurement, OptionError
from ..devices import driver_version
from ..reference.baselines import EAGER_DEFAULT, MODES, BaselineCache, CachedBaseline, baseline_key
from ..reference.client import ReferenceClient
from ..reference.roofline import event_overhead_ms
from ..settings import Sampling, Settings
from ..timing.quiet import QuietTimer
from ..timing.sampling import Timer, Timing
from ..timing.telemetry import Telemetry
from .processes import Processes


@dataclass(frozen=True)
class InterleavedTimes:
    """The results of one round of timing."""

    candidates: tuple[Timing, ...]
    reference: Timing | None = None
    """None in a search."""
    contention: float | None = None
    """Cores that other processes used, where that was too much."""
    baselines: Mapping[str, Measurement] = field(default_factory=dict)
    telemetry: Mapping[str, float] = field(default_factory=dict)

    def fastest_first(self) -> list[int]:
        """Return the numbers of the candidates, the fastest first."""
        return sorted(range(len(self.candidates)), key=lambda number: self.candidates[number].measurement.median_ms)

    def metrics(self, number: int, on_cpu: bool) -> dict[str, Any]:
        """Return the fields of an `Evaluation` for one of the candidates."""
        own = self.candidates[number]
        return {
            "measurement": own.measurement,
            "reference": self.reference.measurement if self.reference else None,
            "baselines": dict(self.baselines),
            "cores_used": own.cores if on_cpu else None,
            "contention": self.contention,
            "telemetry": dict(self.telemetry),
        }


class InterleavedTimer:
    """Times candidates and the reference; `memory` is a folder for once-per-device measurements."""

    def __init__(self, device: str, settings: Settings, processes: Processes, memory: Path | None) -> None:
        self._on_cpu = device == "cpu"
        self._settings = settings
        self._processes = processes
        self._memory = memory
        self._baselines = BaselineCache(memory)
        self._timer = QuietTimer(self._on_cpu)
        self._overhead_ms: float | None = None

    @property
    def server_pids(self) -> tuple[int, ...]:
        """Processes whose load is the evaluator's own."""
        return self._processes.server_pids

    def time(
        self,
        reference_client: ReferenceClient,
        candidates: Sequence[Timer],
        worker_pid: int,
        seeds: Callable[[], Iterator[int]],
        sampling: Sampling,
        prune_above_ms: float | None = None,
        more_pids: Sequence[int] = (),
        rivals: int = 0,
    ) -> InterleavedTimes:
        """Time interleaved with the reference, or with `prune_above_ms` alone and only until they are that slow.

        `worker_pid` and `more_pids` are the processes that candidates run in. The first of `rivals`
        candidates is timed until it is known whether another is faster, if possible (`sampling.interleave`).
        """
        graph = self._settings.graph
        names = [] if prune_above_ms is not None else self._fresh_baselines(reference_client)
        reference = [] if prune_above_ms is not None else [reference_client.timer(seeds(), graph)]
        timers = [*candidates, *reference, *(reference_client.baseline_timer(name, seeds(), graph) for name in names)]
        telemetry = None if self._on_cpu else Telemetry(reference_client.environment["uuid"])
        timings, contention = self._timer.time(
            timers,
            (reference_client.pid, worker_pid, *more_pids),
            self._processes.server_pids,
            sampling,
            prune_above_ms,
            self._overhead(reference_client),
            telemetry.sample if telemetry else lambda: None,
            rivals,
        )
        own = tuple(timings[: len(candidates)])
        seen = telemetry.medians() if telemetry else {}
        if prune_above_ms is not None:
            return InterleavedTimes(own, None, contention, {}, seen)
        eager = timings[len(own)]
        fresh = {name: timing.measurement for name, timing in zip(names, timings[len(own) + 1 :], strict=True)}
        if contention is None:
            for name in MODES.keys() & fresh.keys():
                baseline = CachedBaseline.between(fresh[name], eager.measurement, reference_client.environment)
                self._baselines.put(self._key(reference_client, name), baseline)
        known = {
            name: cached.beside(eager.measurement) for name in MODES if (cached := self._known(reference_client, name))
        }
        return InterleavedTimes(own, eager, contention, {**known, **fresh}, seen)

    def compile_ahead(self, reference_client: ReferenceClient) -> None:
        """Compile the baselines that `time` will, while others measure; not on a CPU, which compilers use too."""
        for name in () if self._on_cpu else self._uncompiled(reference_client):
            reference_client.call("compile_ahead", name=name, cache=self._cache)

    @property
    def _cache(self) -> str | None:
        return str(self._baselines.cache) if self._baselines.cache else None

    def _uncompiled(self, reference_client: ReferenceClient) -> list[str]:
        """Return the requested baselines that are not cached, or are timed anew."""
        anew = {self._settings.required_baseline, *self._settings.fresh_baselines}
        return [
            name for name in self._settings.baselines if name in anew or self._known(reference_client, name) is None
        ]

    def _fresh_baselines(self, reference_client: ReferenceClient) -> list[str]:
        """Return the baselines to time: PyTorch's defaults, and requested ones that compile and are not cached."""
        required = self._settings.required_baseline
        names = [] if reference_client.arithmetic["default_is_reference"] else [EAGER_DEFAULT]
        for name in self._uncompiled(reference_client):
            error = reference_client.call("compile", name=name, cache=self._cache)["error"]
            if error is None:
                names.append(name)
            elif name == required:
                problem = reference_client.problem.id
                raise OptionError(
                    f"`against` {name}: torch does not compile the reference of {problem}: {error}",
                    "use `against` default",
                )
        return names

    def _known(self, reference_client: ReferenceClient, name: str) -> CachedBaseline | None:
        return self._baselines.get(self._key(reference_client, name))

    def _key(self, reference_client: ReferenceClient, name: str) -> str:
        driver = None if self._on_cpu else driver_version()
        key = baseline_key(name, reference_client.problem, reference_client.environment, driver, self._settings.graph)
        return key if self._settings.sampling.heeds_load else f"{key}, quick"

    def _overhead(self, reference_client: ReferenceClient) -> float:
        """Return the overhead of events in ms."""
        if self._on_cpu:
            return 0.0
        if self._overhead_ms is None:
            problem = reference_client.problem
            self._overhead_ms = event_overhead_ms(
                lambda: self._processes.new_reference_client(problem),
                reference_client,
                self._memory,
                self._settings.graph,
            )
        return self._overhead_ms
