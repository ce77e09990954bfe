"""Other ways to run the reference: compiled by torch, as it comes and with its autotuner.

The judge compiles and times them; the ratio to eager, timed in turn with them, is remembered per device, versions
and problem, since a compilation takes longer than an evaluation.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...core import Measurement, Speedup, TorchProblem
from ..profiling.measurement_cache import MeasurementCache
from ..timing.clock import Clock, bind_call
from ..workers.channel import Message

MODES = {"compile": None, "max-autotune": "max-autotune-no-cudagraphs"}
"""What the names mean to `torch.compile`.

Plain 'max-autotune' replays CUDA graphs, whose launches cost nothing and whose inputs are copied first: neither is
so for eager or for the candidate, and a graph cannot be captured around another. Without graphs it chooses the same
kernels; `Settings.graph` captures all sides alike.
"""

NextInputs = Callable[[], tuple[int, Sequence[Any]]]
"""Writes fresh contents into a set of input buffers; returns its number, and the buffers."""


class Baselines:
    """In the judge: the reference compiled in other ways. Weights are those it had when it was compiled.

    Inductor's cache is kept in `cache`, and makes the second compilation of a reference one of seconds.
    """

    def __init__(self, clock: Clock, cache: Path | None) -> None:
        self._clock = clock
        self._cache = cache
        self._compiled: dict[str, Any] = {}

    def compile(self, name: str, model: Any, inputs: Sequence[Any]) -> Message:
        """Compile the model unless that is done; answers seconds, or as `error` why it does not compile."""
        import torch

        if name in self._compiled:
            return {"seconds": 0.0, "error": None}
        start = time.perf_counter()
        self._enter_cache()
        try:
            compiled = torch.compile(model, mode=MODES[name], dynamic=False, fullgraph=False)
            for _ in range(2):  # the first call compiles, the second finds what the first left to do
                compiled(*inputs)
        except Exception as error:  # whatever stops the compiler: the evaluation goes on without this baseline
            return {"seconds": time.perf_counter() - start, "error": f"{type(error).__name__}: {error}"[:500]}
        self._compiled[name] = compiled
        return {"seconds": time.perf_counter() - start, "error": None}

    def time(self, name: str, next_inputs: NextInputs, samples: int) -> Message:
        """Time calls of what was compiled; answered as any timing."""

        def next_call() -> tuple[object, Callable[[], object]]:
            number, inputs = next_inputs()
            return (name, number), bind_call(self._compiled[name], inputs)

        return self._clock.sample(next_call, samples).message(self._clock.method)

    def _enter_cache(self) -> None:
        """Point inductor, and Triton under it, to the cache; on a CPU it compiles in this process, since starting
        its own workers takes longer than what they would do."""
        import torch._inductor.config

        if self._clock.device == "cpu":
            torch._inductor.config.compile_threads = 1
        if self._cache is not None:
            self._cache.mkdir(parents=True, exist_ok=True)
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(self._cache)
            os.environ["TRITON_CACHE_DIR"] = str(self._cache / "triton")


class Baseline(BaseModel):
    """One baseline as it was measured, in turn with eager."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ratio: float = Field(gt=0)
    """Its time over eager's."""
    low: float = Field(gt=0)
    high: float = Field(gt=0)
    """What both 95 % intervals allow."""
    median_ms: float = Field(gt=0)
    eager_ms: float = Field(gt=0)
    method: str
    environment: dict[str, str] = Field(default_factory=dict)

    @classmethod
    def between(cls, baseline: Measurement, eager: Measurement, environment: Mapping[str, str]) -> Baseline:
        """From two measurements taken in turn."""
        ratio = Speedup.between(baseline, eager)
        return cls(
            ratio=ratio.ratio,
            low=ratio.low,
            high=ratio.high,
            median_ms=baseline.median_ms,
            eager_ms=eager.median_ms,
            method=baseline.method,
            environment=dict(environment),
        )

    def beside(self, eager: Measurement) -> Measurement:
        """The baseline's time next to a new measurement of eager: its samples times the ratio, and it says so."""
        return Measurement(
            samples_ms=tuple(sample * self.ratio for sample in eager.samples_ms),
            method=f"{self.ratio:.4g} times eager [{self.low:.4g}, {self.high:.4g}], as measured before",
            warmup=eager.warmup,
        )


class BaselineCache:
    """Baselines that were measured before, in `folder`/baselines.json; without a folder there are none."""

    def __init__(self, folder: Path | None) -> None:
        self._known = MeasurementCache(folder / "baselines.json" if folder else None)
        self.cache = folder / "inductor" if folder else None
        """Where the judge keeps what inductor compiled."""

    def get(self, key: str) -> Baseline | None:
        """What is known under the key of `baseline_key`."""
        try:
            return Baseline.model_validate(self._known.get(key))
        except ValidationError:  # nothing, or what another version wrote
            return None

    def put(self, key: str, baseline: Baseline) -> None:
        """Remember it; where that fails it is measured again."""
        self._known.put(key, baseline.model_dump())


def baseline_key(
    name: str, problem: TorchProblem, environment: Mapping[str, str], driver: str | None, graph: bool = False
) -> str:
    """All that a baseline's ratio depends on: device, versions, the problem's text and sizes, how it is timed.

    Two GPUs of one model share their baselines: the UUID is no part of it.
    """
    described = json.dumps([problem.source, dict(problem.sizes)], sort_keys=True, default=str)
    digest = hashlib.sha256(described.encode()).hexdigest()[:16]
    versions = [f"{part} {environment[part]}" for part in ("torch", "triton", "cuda", "threads") if part in environment]
    parts = [name, problem.id, digest, environment["device"], *versions]
    parts += [f"driver {driver}"] if driver else []
    return ", ".join([*parts, "graph"] if graph else parts)
