"""Times calls inside a worker. The same code times the candidate and the reference."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..workers.channel import Message

# Bound before a candidate's code runs, which could replace them.
_now_ns = time.perf_counter_ns
_cpu_ns = time.process_time_ns

WARM_UP_S = 0.05
"""Seconds that a GPU is kept busy before the first sample: its clocks need some milliseconds to rise."""
COLD_S = 0.5
"""Seconds of idleness after which a GPU is warmed up again."""

Call = Callable[[], object]
NextCall = Callable[[], tuple[Hashable, Call]]
"""Writes fresh contents into a set of input buffers; returns a key of the set (and the model), and the call on it."""


class Gpu(Protocol):
    """The GPU operations that the clock needs; implemented by `events.CudaEvents`."""

    wait: Callable[[], object]
    reset_persisting: Callable[[], None]
    flush: Callable[[], None]
    flush_kernel: str

    def start(self) -> None:
        """Record the start event."""

    def stop(self) -> None:
        """Record the end event."""

    def elapsed_ms(self) -> float:
        """Return the milliseconds between the two events, after `wait`."""

    def capture(self, call: Call) -> Call:
        """Return a call that replays `call` as a CUDA graph."""


@dataclass
class Samples:
    """The times of single calls, in the order of the calls."""

    times_ms: list[float] = field(default_factory=list)
    """Milliseconds: by events on a GPU, by the wall clock on a CPU."""
    host_ms: list[float] = field(default_factory=list)
    """Wall ms of the same calls, from before the L2 flush until the device was idle again; on a CPU the same."""
    cores: float = 0.0
    """Processor time over wall time; 0.0 on a GPU."""
    results: list[object] = field(default_factory=list)
    """The calls' return values, where they are kept; else the last one's."""

    def message(self, method: str) -> Message:
        """Return the fields of a worker's response: all but `results`."""
        return {"samples_ms": self.times_ms, "host_ms": self.host_ms, "cores": self.cores, "method": method}


class Clock:
    """Times single calls: by the wall clock on a CPU; on a GPU by events, as captured graphs if requested.

    Create it, or the `gpu` from `open_events`, before a candidate's code is loaded. Captured graphs belong to the key
    that `next_call` returns; `forget` drops them.
    """

    def __init__(self, device: str, graph: bool = False, gpu: Gpu | None = None) -> None:
        self.device = device
        self._gpu = gpu = gpu or open_events(device)
        self.graph = graph and gpu is not None
        self._replays: dict[Hashable, Call] = {}
        self._used_ns: int | None = None

    @property
    def method(self) -> str:
        """The timing method, for the record."""
        if self._gpu is None:
            return "wall clock"
        return "CUDA graph, L2 flushed" if self.graph else "CUDA events, L2 flushed"

    @property
    def flush(self) -> Call | None:
        """The function that empties the cache; None on a CPU."""
        return self._gpu.flush if self._gpu is not None else None

    @property
    def flush_kernel(self) -> str | None:
        """The name of the cache flush in a profile; None on a CPU."""
        return self._gpu.flush_kernel if self._gpu is not None else None

    def warm_up(self) -> None:
        """Keep a GPU busy until its clocks have risen; `sample` calls this where needed."""
        if self._gpu is None:
            return
        end = _now_ns() + int(WARM_UP_S * 1e9)
        while _now_ns() < end:
            for _ in range(8):
                self._gpu.flush()
            self._gpu.wait()
        self._used_ns = _now_ns()

    def sample(self, next_call: NextCall, samples: int, keep: bool = False, warm: bool = True) -> Samples:
        """Time `samples` calls, each after `next_call`, which is not timed; `keep` all return values.

        A GPU that was idle is kept busy first, where it is to be `warm`.
        """
        if self._gpu is None:
            return self._on_cpu(next_call, samples, keep)
        if warm and samples:
            self.warm_if_cold()
        return self._on_gpu(self._gpu, next_call, samples, keep)

    def settle(self) -> None:
        """Let a GPU that another process has used be ready for a timed call."""
        if self._gpu is not None:
            self._timed(self._gpu, _nothing)

    def wait(self) -> None:
        """Wait until a GPU is idle."""
        if self._gpu is not None:
            self._gpu.wait()

    def empty_ms(self, samples: int = 50) -> float:
        """Return the wall ms of an empty call beyond its time by events: the mean, which shows who disturbs some."""
        if self._gpu is None:
            return 0.0
        self.warm_if_cold()
        gaps = []
        for _ in range(samples):
            time_ms, host_ms, _ = self._timed(self._gpu, _nothing)
            gaps.append(host_ms - time_ms)
        return statistics.fmean(gaps)

    def forget(self) -> None:
        """Drop captured graphs, and with them their models and buffers."""
        self._replays.clear()

    def _on_cpu(self, next_call: NextCall, samples: int, keep: bool) -> Samples:
        taken = Samples()
        busy_ns = 0
        for _ in range(samples):
            if not keep:
                taken.results.clear()  # freed before the timed call, which can reuse it
            _, call = next_call()
            busy = _cpu_ns()
            start = _now_ns()
            result = call()
            taken.times_ms.append((_now_ns() - start) / 1e6)
            busy_ns += _cpu_ns() - busy
            taken.results.append(result)
            del result
        taken.host_ms = list(taken.times_ms)
        taken.cores = busy_ns / 1e6 / max(sum(taken.times_ms), 1e-6)
        return taken

    def _on_gpu(self, gpu: Gpu, next_call: NextCall, samples: int, keep: bool) -> Samples:
        taken = Samples()
        for _ in range(samples):
            if not keep:
                taken.results.clear()
            time_ms, host_ms, result = self._timed(gpu, self.prepared(*next_call()))
            taken.results.append(result)
            del result
            taken.times_ms.append(time_ms)
            taken.host_ms.append(host_ms)
        self._used_ns = _now_ns()
        return taken

    def is_captured(self, key: Hashable) -> bool:
        """Return whether `prepared` has captured a call of this key, or need not."""
        return self._gpu is None or not self.graph or key in self._replays

    def prepared(self, key: Hashable, call: Call) -> Call:
        """Return the call itself, or the graph that was captured of it, now or before."""
        if self._gpu is None or not self.graph:
            return call
        if key not in self._replays:
            self._replays[key] = self._gpu.capture(call)
        return self._replays[key]

    def _timed(self, gpu: Gpu, call: Call) -> tuple[float, float, object]:
        """Return milliseconds by events and by the wall clock, and the call's return value.

        Nothing waits between the flush and the call: the call is launched while the GPU writes, so the events measure
        the kernels and not the processor's preparations, unless these take longer than the flush.
        """
        gpu.wait()
        begin = _now_ns()
        gpu.reset_persisting()
        gpu.flush()
        gpu.start()
        result = call()
        gpu.stop()
        gpu.wait()
        host_ms = (_now_ns() - begin) / 1e6
        return gpu.elapsed_ms(), host_ms, result

    def warm_if_cold(self) -> None:
        """Warm up a GPU that has been idle; `sample` does, too."""
        if self._used_ns is None or _now_ns() - self._used_ns > COLD_S * 1e9:
            self.warm_up()


def open_events(device: str) -> Gpu | None:
    """Return the GPU operations for clocks, which may share them; None for a CPU."""
    if not device.startswith("cuda"):
        return None
    from .events import CudaEvents

    return CudaEvents(device)


def bind_call(model: Any, inputs: Sequence[Any]) -> Call:
    """Return one call of a model as a function without arguments."""

    def call() -> object:
        return model(*inputs)

    return call


def always(call: Call) -> NextCall:
    """Return a `NextCall` that repeats the same call on the same buffers."""
    return lambda: (0, call)


def _nothing() -> None:
    return None
