"""Timing candidates in turn with the reference, and all that says what the times are worth."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..core import Measurement
from .baselines import MODES, Baseline, BaselineMemory, baseline_key
from .contention import LoadMeter, tolerated_cores
from .judging import Judge
from .limits import Sampling, Settings
from .processes import Processes
from .profiling import event_overhead_ms
from .sampling import Timer, Timing, take_turns
from .telemetry import Telemetry, driver_version

CROWDED = 2
"""After so many timings in a row that others disturbed, waiting for quiet is given up."""


@dataclass(frozen=True)
class Times:
    """What one round of timing found."""

    candidates: tuple[Timing, ...]
    reference: Timing | None = None
    """None in a search."""
    contention: float | None = None
    """Cores that others used, where that was too much."""
    baselines: Mapping[str, Measurement] = field(default_factory=dict)
    telemetry: Mapping[str, float] = field(default_factory=dict)

    def figures(self, number: int, on_cpu: bool) -> dict[str, Any]:
        """The fields of an `Evaluation` for one of the candidates."""
        own = self.candidates[number]
        return {
            "measurement": own.measurement,
            "reference": self.reference.measurement if self.reference else None,
            "baselines": dict(self.baselines),
            "cores_used": own.cores if on_cpu else None,
            "contention": self.contention,
            "telemetry": dict(self.telemetry),
        }


class Timekeeper:
    """The clock's side of an evaluator; `memory` is a folder for what is measured once per device."""

    def __init__(self, device: str, settings: Settings, processes: Processes, memory: Path | None) -> None:
        self._on_cpu = device == "cpu"
        self._settings = settings
        self._processes = processes
        self._memory = memory
        self._baselines = BaselineMemory(memory)
        self._meter = LoadMeter()
        self._crowded = 0
        self._overhead_ms: float | None = None

    @property
    def server_pids(self) -> tuple[int, ...]:
        """Processes whose load is not foreign."""
        return self._processes.server_pids

    def time(
        self,
        judge: Judge,
        candidates: Sequence[Timer],
        worker_pid: int,
        seeds: Callable[[], Iterator[int]],
        sampling: Sampling,
        hopeless_ms: float | None = None,
    ) -> Times:
        """In turn with the reference, or with `hopeless_ms` alone, given up when they are that slow."""
        graph = self._settings.graph
        names = [] if hopeless_ms is not None else self._compile_baselines(judge)
        reference = [] if hopeless_ms is not None else [judge.timer(seeds(), graph)]
        timers = [*candidates, *reference, *(judge.compiled_timer(name, seeds(), graph) for name in names)]
        telemetry = None if self._on_cpu else Telemetry(judge.environment["uuid"])
        timings, contention = self._take_turns(judge, timers, worker_pid, sampling, hopeless_ms, telemetry)
        own = tuple(timings[: len(candidates)])
        seen = telemetry.medians() if telemetry else {}
        if hopeless_ms is not None:
            return Times(own, None, contention, {}, seen)
        eager = timings[len(own)]
        fresh = {name: one.measurement for name, one in zip(names, timings[len(own) + 1 :], strict=True)}
        if contention is None:
            for name, measurement in fresh.items():
                baseline = Baseline.between(measurement, eager.measurement, judge.environment)
                self._baselines.put(self._key(judge, name), baseline)
        known = {name: one.beside(eager.measurement) for name in MODES if (one := self._known(judge, name))}
        return Times(own, eager, contention, {**known, **fresh}, seen)

    def _take_turns(
        self,
        judge: Judge,
        timers: Sequence[Timer],
        worker_pid: int,
        sampling: Sampling,
        hopeless_ms: float | None,
        telemetry: Telemetry | None,
    ) -> tuple[list[Timing], float | None]:
        """On a CPU that others use, wait for them and try once more, then say how much they used."""
        overhead_ms = self._overhead(judge)
        patience = sampling.patience_s if self._on_cpu and self._crowded < CROWDED else 0.0
        watch = telemetry.sample if telemetry else lambda: None
        while True:
            self._meter.start((*self._processes.server_pids, judge.pid, worker_pid))
            limit_ms = math.inf if hopeless_ms is None else hopeless_ms
            timings = take_turns(timers, sampling, limit_ms, overhead_ms, watch)
            foreign = self._meter.foreign_cores() if self._on_cpu else None
            quiet = foreign is None or foreign < tolerated_cores()
            if quiet or not (patience and self._meter.wait_until_quiet(patience)):
                break
            patience = 0.0
        self._crowded = 0 if quiet else self._crowded + 1
        return timings, None if quiet else foreign

    def _compile_baselines(self, judge: Judge) -> list[str]:
        """Those that are asked for and not known: the judge compiles them. What does not compile is left out."""
        names = [name for name in self._settings.baselines if self._known(judge, name) is None]
        cache = str(self._baselines.cache) if self._baselines.cache else None
        return [name for name in names if judge.call("compile", name=name, cache=cache)["error"] is None]

    def _known(self, judge: Judge, name: str) -> Baseline | None:
        return self._baselines.get(self._key(judge, name))

    def _key(self, judge: Judge, name: str) -> str:
        driver = None if self._on_cpu else driver_version()
        return baseline_key(name, judge.problem, judge.environment, driver, self._settings.graph)

    def _overhead(self, judge: Judge) -> float:
        """What events read beyond the kernels."""
        if self._on_cpu:
            return 0.0
        if self._overhead_ms is None:
            problem = judge.problem
            self._overhead_ms = event_overhead_ms(
                lambda: self._processes.new_judge(problem), judge, self._memory, self._settings.graph
            )
        return self._overhead_ms
