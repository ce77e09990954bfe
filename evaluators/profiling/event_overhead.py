"""The overhead of CUDA events, measured once per device against the profiler.

A start event completes before the kernel behind it is launched, and an end event waits until the kernel's writes are
done: some microseconds, the same for every call. They are subtracted from every sample, of the candidate and of the
reference.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

from ..timing.clock import Clock, always
from .torch_profiler import ON_DEVICE, traced


def event_overhead_ms(clock: Clock, samples: int = 200) -> float:
    """Return the clock's ms for a kernel that adds one number, less the profiler's ms for that kernel; on a GPU.

    The profiler changes the process (CUPTI stays loaded): measure nothing else in it afterwards.
    """
    import torch

    element = torch.zeros(1, device=clock.device)
    tiny = always(lambda: element.add_(1.0))
    seen = statistics.median(clock.sample(tiny, samples).times_ms)
    ran = statistics.median(kernel_times_ms(lambda: clock.sample(tiny, samples), clock))
    return max(0.0, seen - ran)


def kernel_times_ms(run: Callable[[], object], clock: Clock) -> list[float]:
    """Return the ms of each kernel and copy that `run` started on the device, in order of their start, by torch's
    profiler; without the clock's cache flushes."""
    device, flush = clock.device, clock.flush_kernel or ""
    traced(lambda: None, device)  # the first window of a process only opens CUPTI
    trace = traced(run, device)
    events = [event for event in trace.get("traceEvents", []) if event.get("cat") in ON_DEVICE and "dur" in event]
    own = [event for event in events if flush not in event["name"]]
    return [event["dur"] / 1e3 for event in sorted(own, key=lambda event: float(event["ts"]))]
