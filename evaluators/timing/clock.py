"""Timing calls inside a worker. The same code times the candidate and the reference."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..workers.channel import Message

# Bound before a candidate's code runs, which might replace them.
_now_ns = time.perf_counter_ns
_cpu_ns = time.process_time_ns

WARM_UP_S = 0.05
"""How long a GPU is kept busy before the first sample: its clocks need some milliseconds to rise."""
COLD_S = 0.5
"""A GPU that was idle for so long is warmed up again."""
HIDDEN_MS = 0.05
HIDDEN_SHARE = 0.1
"""Time beside the events that is not worth a word: so much, or this share of the call, whichever is more."""
FEW = 5
HIDDEN_IN_FEW_MS = 1.0
"""Of fewer samples than that, one may be an interruption of the processor: more must be missing for a verdict."""

Call = Callable[[], object]
NextCall = Callable[[], tuple[Hashable, Call]]
"""Writes fresh contents into a set of input buffers; returns what names the set (and the model), and the call on it."""


class Gpu(Protocol):
    """What the clock asks of a GPU; `events.CudaEvents` in earnest."""

    wait: Callable[[], object]
    reset_persisting: Callable[[], None]
    flush: Callable[[], None]
    flush_kernel: str

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def elapsed_ms(self) -> float: ...
    def capture(self, call: Call) -> Call: ...


@dataclass
class Samples:
    """The times of single calls, in the order of the calls."""

    times_ms: list[float] = field(default_factory=list)
    """By events on a GPU, by the wall clock on a CPU."""
    host_ms: list[float] = field(default_factory=list)
    """Wall time of the same calls, from before the L2 flush until the device was idle again; on a CPU the same."""
    cores: float = 0.0
    """Processor time over wall time; 0.0 on a GPU."""
    last: object = None
    """What the last call returned."""

    def message(self, method: str) -> Message:
        """As a worker answers it: all but `last`."""
        return {"samples_ms": self.times_ms, "host_ms": self.host_ms, "cores": self.cores, "method": method}


class Clock:
    """Times single calls: by the wall clock on a CPU, by events on a GPU, there as captured graphs if so asked.

    Make it, or what `gpu` gets from `open_events`, before a candidate's code is loaded. One model at a time: captured
    graphs are told apart by what `next_call` names, and `forget` drops them.
    """

    def __init__(self, device: str, graph: bool = False, gpu: Gpu | None = None) -> None:
        self.device = device
        self._gpu = gpu = gpu or open_events(device)
        self.graph = graph and gpu is not None
        self._replays: dict[Hashable, Call] = {}
        self._used_ns: int | None = None

    @property
    def method(self) -> str:
        """How it times, for the record."""
        if self._gpu is None:
            return "wall clock"
        return "CUDA graph, L2 flushed" if self.graph else "CUDA events, L2 flushed"

    @property
    def flush(self) -> Call | None:
        """What empties the cache; None on a CPU."""
        return self._gpu.flush if self._gpu is not None else None

    @property
    def flush_kernel(self) -> str | None:
        """By which name a profiler shows the flush of the cache; None on a CPU."""
        return self._gpu.flush_kernel if self._gpu is not None else None

    def warm_up(self) -> None:
        """Keep a GPU busy until its clocks have risen; `sample` does so where it is needed."""
        if self._gpu is None:
            return
        end = _now_ns() + int(WARM_UP_S * 1e9)
        while _now_ns() < end:
            for _ in range(8):
                self._gpu.flush()
            self._gpu.wait()
        self._used_ns = _now_ns()

    def sample(self, next_call: NextCall, samples: int) -> Samples:
        """Time so many calls, each after `next_call`, which is not timed."""
        return self._on_cpu(next_call, samples) if self._gpu is None else self._on_gpu(self._gpu, next_call, samples)

    def empty_ms(self, samples: int = 50) -> float:
        """What a call's wall time is beyond the time by its events, as the median of calls that do nothing."""
        if self._gpu is None:
            return 0.0
        self._warm_if_cold()
        gaps = []
        for _ in range(samples):
            time_ms, host_ms, _ = self._timed(self._gpu, _nothing)
            gaps.append(host_ms - time_ms)
        return statistics.median(gaps)

    def forget(self) -> None:
        """Drop captured graphs, and with them the models and buffers that they hold."""
        self._replays.clear()

    def _on_cpu(self, next_call: NextCall, samples: int) -> Samples:
        taken = Samples()
        busy_ns = 0
        for _ in range(samples):
            taken.last = None  # freed outside of the time, and there for the next call to use
            _, call = next_call()
            busy = _cpu_ns()
            start = _now_ns()
            result = call()
            taken.times_ms.append((_now_ns() - start) / 1e6)
            busy_ns += _cpu_ns() - busy
            taken.last = result
            del result
        taken.host_ms = list(taken.times_ms)
        taken.cores = busy_ns / 1e6 / max(sum(taken.times_ms), 1e-6)
        return taken

    def _on_gpu(self, gpu: Gpu, next_call: NextCall, samples: int) -> Samples:
        self._warm_if_cold()
        taken = Samples()
        for _ in range(samples):
            taken.last = None
            number, call = next_call()
            if self.graph:
                if number not in self._replays:
                    self._replays[number] = gpu.capture(call)
                call = self._replays[number]
            time_ms, host_ms, taken.last = self._timed(gpu, call)
            taken.times_ms.append(time_ms)
            taken.host_ms.append(host_ms)
        self._used_ns = _now_ns()
        return taken

    def _timed(self, gpu: Gpu, call: Call) -> tuple[float, float, object]:
        """Milliseconds by events and by the wall clock, and what the call returned.

        Nothing waits between the flush and the call: while the GPU writes, the call is launched, so the events
        see the kernels and not the processor's preparations, unless these take longer than the flush.
        """
        gpu.reset_persisting()
        gpu.wait()
        begin = _now_ns()
        gpu.flush()
        gpu.start()
        result = call()
        gpu.stop()
        gpu.wait()
        host_ms = (_now_ns() - begin) / 1e6
        return gpu.elapsed_ms(), host_ms, result

    def _warm_if_cold(self) -> None:
        if self._used_ns is None or _now_ns() - self._used_ns > COLD_S * 1e9:
            self.warm_up()


def hidden_work(times_ms: Sequence[float], host_ms: Sequence[float], empty_ms: float) -> str | None:
    """Says so when processor or device were busy for much longer than the events say; else None.

    Work on another stream, in a thread, or events that were tampered with. Flush, call and the wait for the device
    follow each other without a pause, so wall time less event time is that of an empty call (`Clock.empty_ms`,
    measured by the judge), whether the kernels or their launches take the time. Launching many kernels makes the
    events' time long and leaves that difference as it is.
    """
    if not times_ms or len(times_ms) != len(host_ms):
        return f"{len(times_ms)} times by events came with {len(host_ms)} times by the wall clock"
    if not all(map(math.isfinite, (*times_ms, *host_ms))):
        return "the times are no numbers"
    excess = statistics.median(host - event for event, host in zip(times_ms, host_ms, strict=True)) - empty_ms
    call_ms = statistics.median(times_ms)
    tolerated = HIDDEN_MS if len(times_ms) >= FEW else HIDDEN_IN_FEW_MS
    if excess <= max(tolerated, HIDDEN_SHARE * call_ms):
        return None
    return f"each call kept the device busy for {excess:.3f} ms beyond the {call_ms:.3f} ms that its events say"


def open_events(device: str) -> Gpu | None:
    """What clocks need of a GPU, and may share; None for a CPU."""
    if not device.startswith("cuda"):
        return None
    from .events import CudaEvents

    return CudaEvents(device)


def bind_call(model: Any, inputs: Sequence[Any]) -> Call:
    """One call of a model, as a function of nothing."""

    def call() -> object:
        return model(*inputs)

    return call


def always(call: Call) -> NextCall:
    """The same call on the same buffers for every sample."""
    return lambda: (0, call)


def _nothing() -> None:
    return None
