"""Timing calls inside a worker. The same code times the candidate and the reference."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

# Bound before a candidate's code runs, which might replace them.
_now_ns = time.perf_counter_ns
_cpu_ns = time.process_time_ns


class Clock:
    """Times single calls of a model: wall clock on the CPU, events on a GPU."""

    def __init__(self, device: str) -> None:
        self.device = device
        self._flush: Any = None

    @property
    def method(self) -> str:
        return "CUDA events, L2 flushed" if self.device.startswith("cuda") else "wall clock"

    def sample(self, call: Callable[[], object], samples: int) -> tuple[list[float], float]:
        """Milliseconds of each call, and the share of processor time over wall time."""
        if self.device.startswith("cuda"):
            return self._sample_cuda(call, samples), 0.0
        times = []
        busy = _cpu_ns()
        for _ in range(samples):
            start = _now_ns()
            call()
            times.append((_now_ns() - start) / 1e6)
        return times, (_cpu_ns() - busy) / 1e6 / sum(times)

    def _sample_cuda(self, call: Callable[[], object], samples: int) -> list[float]:
        import torch

        if self._flush is None:
            size = 2 * torch.cuda.get_device_properties(self.device).L2_cache_size
            self._flush = torch.empty(max(size, 1 << 20), dtype=torch.int8, device=self.device)
        times = []
        for _ in range(samples):
            self._flush.zero_()
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            call()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end))
        return times


def bind_call(model: Any, inputs: Sequence[Any]) -> Callable[[], object]:
    """One call of a model, as a function of nothing."""

    def call() -> object:
        return model(*inputs)

    return call
