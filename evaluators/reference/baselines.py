"""Other ways to run the reference: eager with PyTorch's own defaults, and compiled by torch.

The reference worker compiles and times them. The ratio of a compiled one to eager, measured interleaved, is cached per
device, versions and problem, since a compilation takes longer than an evaluation.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ...core import Measurement, Speedup, TorchProblem
from ...core.cache import Cache
from ...core.text import digest_of
from ..timing.clock import Clock, bind_call
from ..workers.channel import Message
from ..workers.removal import remove_tree
from ..workers.shortages import SHORTAGES
from .arithmetic import Arithmetic
from .inductor_compiler import BenchmarkRefusedError, without_benchmarks

EAGER_DEFAULT = "default"
"""Eager, with PyTorch's own defaults: needs no compilation."""
MODES = {"compile": None, "max-autotune": "max-autotune-no-cudagraphs"}
"""Arguments of `torch.compile` by name.

Plain 'max-autotune' replays CUDA graphs, whose launches are free and whose inputs are copied first: neither applies
to eager or to the candidate, and a graph cannot be captured around another. Without graphs it selects the same
kernels; `Settings.graph` captures all sides equally.
"""

_LACKED = (*SHORTAGES, "out of memory")
"""Parts of errors that say nothing about the cache."""
MEASURED = ("max-autotune",)
"""Baselines for which Inductor chooses kernels by measured times while it compiles."""

NextInputs = Callable[[], tuple[int, Sequence[Any]]]
"""Writes fresh contents into a set of input buffers; returns the set's number, and the buffers."""


class Baselines:
    """In the reference worker: the reference as users run it, with PyTorch's own defaults for TF32.

    A compiled one has the weights of the time of its compilation. Inductor's cache is kept in `cache`, which cuts a
    repeated compilation to seconds.
    """

    def __init__(self, clock: Clock, cache: Path | None, arithmetic: Arithmetic) -> None:
        self._clock = clock
        self._cache = cache
        self._arithmetic = arithmetic
        self._compiled: dict[str, Any] = {}
        self._ahead: set[str] = set()

    def compile_ahead(self, name: str, model: Any, inputs: Sequence[Any]) -> Message:
        """Fill Inductor's cache for `compile`, and run nothing on the device, where others may measure meanwhile.

        What Inductor would have to measure is left to `compile`, and so are all graphs of a model but the first.
        """
        import torch
        from torch._dynamo import lookup_backend

        if name in self._compiled or name in self._ahead or name in MEASURED:
            return {"compiled": False}
        self._ahead.add(name)
        self._enter_cache(self._cache)
        inductor, done = lookup_backend("inductor"), []

        def only_compile(graph: Any, given: Sequence[Any]) -> Any:
            done.append(inductor(graph, given))
            raise BenchmarkRefusedError("it is compiled, and not to run yet")

        with contextlib.suppress(Exception), self._arithmetic.switched(self._arithmetic.default), without_benchmarks():
            torch.compile(model, backend=only_compile, dynamic=False)(*inputs)
        return {"compiled": bool(done)}

    def compile(self, name: str, model: Any, inputs: Sequence[Any]) -> Message:
        """Compile the model unless it is compiled; return seconds, and as `error` why it does not compile.

        A file of the cache that a killed compiler or a full disk has cut stays there and fails each time: where the
        model compiles with an empty cache, that one replaces the other.
        """
        if name in self._compiled:
            return {"seconds": 0.0, "error": None}
        start = time.perf_counter()
        cached = self._cache is not None and self._cache.is_dir() and any(self._cache.iterdir())
        self._enter_cache(self._cache)
        error = self._failure(name, model, inputs)
        if error is not None and self._cache is not None and cached and not any(said in error for said in _LACKED):
            anew = Path(tempfile.mkdtemp(prefix=f"{self._cache.name}-", dir=self._cache.parent))
            self._enter_cache(anew)
            error = self._failure(name, model, inputs)
            if error is None:
                with contextlib.suppress(OSError):  # another process has done so meanwhile
                    self._cache.rename(anew.with_name(f"{anew.name}-cut"))
                    anew.rename(self._cache)
            remove_tree(anew)
            remove_tree(anew.with_name(f"{anew.name}-cut"))
            self._enter_cache(self._cache)
        return {"seconds": time.perf_counter() - start, "error": error}

    def _failure(self, name: str, model: Any, inputs: Sequence[Any]) -> str | None:
        """Compile the model; return the error, with which the evaluation continues, or None."""
        import torch

        try:
            compiled = torch.compile(model, mode=MODES[name], dynamic=False, fullgraph=False)
            with self._arithmetic.switched(self._arithmetic.default):
                for _ in range(2):  # the second call compiles what the first left
                    compiled(*inputs)
        except Exception as error:
            return f"{type(error).__name__}: {error}"[:500]
        self._compiled[name] = compiled
        return None

    def time(self, name: str, model: Any, next_inputs: NextInputs, samples: int) -> Message:
        """Time calls of the model, or of what was compiled of it; return the fields of any timing."""
        model = model if name == EAGER_DEFAULT else self._compiled[name]

        def next_call() -> tuple[object, Callable[[], object]]:
            number, inputs = next_inputs()
            return (name, number), bind_call(model, inputs)

        with self._arithmetic.switched(self._arithmetic.default):
            return self._clock.sample(next_call, samples).message(self._clock.method)

    def _enter_cache(self, folder: Path | None) -> None:
        """Point inductor, and Triton under it, to the cache; on a CPU compile in this process, since starting
        inductor's workers takes longer than their work, and without precompiled headers, which take longer than one or
        two kernels: they stand in the process's temporary folder, so each process would make them, whatever is cached.
        """
        import torch._inductor.config

        if self._clock.device == "cpu":
            torch._inductor.config.compile_threads = 1
            torch._inductor.config.cpp_cache_precompile_headers = False
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)
            os.environ["TRITON_CACHE_DIR"] = str(folder / "triton")


class CachedBaseline(BaseModel):
    """One measured baseline, interleaved with eager as the reference computes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ratio: float = Field(gt=0)
    """Time over that of eager PyTorch."""
    low: float = Field(gt=0)
    high: float = Field(gt=0)
    """Bounds of the ratio from both 95 % intervals."""
    median_ms: float = Field(gt=0)
    eager_ms: float = Field(gt=0)
    method: str
    environment: dict[str, str] = Field(default_factory=dict)

    @classmethod
    def between(cls, baseline: Measurement, eager: Measurement, environment: Mapping[str, str]) -> CachedBaseline:
        """Return the ratio of two interleaved measurements."""
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
        """Return the baseline's time for a new measurement of eager: its samples times the ratio, marked as such."""
        return Measurement(
            samples_ms=tuple(sample * self.ratio for sample in eager.samples_ms),
            method=f"{self.ratio:.4g} times eager [{self.low:.4g}, {self.high:.4g}], as measured before",
            warmup=eager.warmup,
        )


class BaselineCache:
    """Baselines measured before, in `folder`/baselines.json; empty without a folder."""

    def __init__(self, folder: Path | None) -> None:
        self._known = Cache(folder / "baselines.json" if folder else None, CachedBaseline)
        self.cache = folder / "inductor" if folder else None
        """Inductor's cache for the reference worker."""

    def get(self, key: str) -> CachedBaseline | None:
        """Return the baseline under the key of `baseline_key`, or None."""
        return self._known.get(key)

    def put(self, key: str, baseline: CachedBaseline) -> None:
        """Store a baseline; a write error is ignored."""
        self._known.put(key, baseline)


def baseline_key(
    name: str, problem: TorchProblem, environment: Mapping[str, str], driver: str | None, graph: bool = False
) -> str:
    """Return everything that a baseline's ratio depends on: device, versions, the problem's text and sizes, the timing.

    Two GPUs of one model share their baselines: the UUID is not included.
    """
    text = json.dumps([problem.source, dict(problem.sizes)], sort_keys=True, default=str)
    # Eager's TF32; a compiled one has PyTorch's defaults.
    described = ("torch", "triton", "cuda", "hip", "threads", "tf32")
    versions = [f"{part} {environment[part]}" for part in described if part in environment]
    parts = [name, problem.id, digest_of(text), environment["device"], *versions]
    parts += [f"driver {driver}"] if driver else []
    return ", ".join([*parts, "graph"] if graph else parts)
