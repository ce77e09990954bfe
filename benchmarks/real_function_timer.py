"""Times an installed package's function as its users call it, by events of the device; a process for each function.

    python benchmarks/real_function_timer.py < requests

The first line of standard input is a call, as `real_function_call.py` has it; once its module is imported, "ready" is
printed. After each further line the function is timed, and one line of JSON is printed: the median of its times in
`ms`, of its first config where it is autotuned, and in `chosen_ms` of the config that its own autotuner chooses. With
end of input the overhead of events is printed, as `overhead_ms`, which is part of each time.

The device sleeps while the host launches a call, so launches do not count, and its cache is overwritten before. A
function that waits for the device within a call cannot be launched ahead: `waits` says so, and its host counts.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import triton
from real_function_call import copied, failed, found, loaded, moved

SAMPLES = 60
SEEDS = 6
FLUSHED = 8
"""Multiple of the cache's size that is overwritten before a call."""
CYCLES_PER_MS = 1_980_000
MOST_MS = 50.0
"""The device sleeps for so long at the most."""


class Timer:
    """Times calls on the current device."""

    def __init__(self) -> None:
        size = FLUSHED * torch.cuda.get_device_properties(0).L2_cache_size
        self._buffer = torch.empty(size, dtype=torch.uint8, device="cuda")

    def ms(self, call: Callable[[], object], host_ms: float) -> tuple[float, bool]:
        """Return the device's milliseconds of a call, and whether the host was done before the device began."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        slept = torch.cuda.Event()
        torch.cuda.synchronize()
        torch.cuda._sleep(int(min(2 * host_ms + 0.2, MOST_MS) * CYCLES_PER_MS))
        slept.record()
        self._buffer.zero_()
        begin.record()
        call()
        end.record()
        ahead = not slept.query()
        torch.cuda.synchronize()
        return begin.elapsed_time(end), ahead


def timed(function: Callable[..., Any], sets: list[list[Any]], timer: Timer) -> dict[str, Any]:
    """Return the median time of calls, each on a copy of one of several sets of arguments."""
    hosts = []
    for number in range(5):
        arguments = copied(sets[number % len(sets)])
        torch.cuda.synchronize()
        started = time.perf_counter()
        function(*arguments)
        hosts.append((time.perf_counter() - started) * 1e3)
    samples = []
    for number in range(SAMPLES):
        arguments = copied(sets[number % len(sets)])
        samples.append(timer.ms(lambda arguments=arguments: function(*arguments), min(hosts)))
    return {"ms": statistics.median(ms for ms, _ in samples), "waits": sum(ahead for _, ahead in samples) < SAMPLES / 2}


def overhead_ms(timer: Timer) -> float:
    """Return what events add to a kernel that adds one number, by torch's profiler, which changes the process."""
    element = torch.zeros(1, device="cuda")
    by_events = statistics.median(timer.ms(lambda: element.add_(1.0), 0.1)[0] for _ in range(100))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(100):
            timer.ms(lambda: element.add_(1.0), 0.1)
    events = [item for item in profile.events() if "elementwise" in item.name and "Fill" not in item.name]
    ran = statistics.median([item.device_time for item in events]) / 1e3 if events else by_events
    return max(0.0, by_events - ran)


class Autotuners:
    """Lets autotuners take their first config while `first` is set, and notes whether there are any."""

    def __init__(self) -> None:
        self.first = False
        self.seen = False
        run = triton.runtime.Autotuner.run

        def run_first(autotuner: Any, *arguments: Any, **options: Any) -> Any:
            self.seen |= len(autotuner.configs) > 1
            if not self.first:
                return run(autotuner, *arguments, **options)
            configs, autotuner.configs = autotuner.configs, autotuner.configs[:1]
            try:
                return run(autotuner, *arguments, **options)
            finally:
                autotuner.configs = configs

        triton.runtime.Autotuner.run = run_first


def main() -> None:
    """Serve requests."""
    call = json.loads(sys.stdin.readline())
    answers = sys.stdout
    sys.stdout = sys.stderr  # packages print
    tuned = Autotuners()
    timer: Timer | None = None
    sets: list[list[Any]] = []
    try:
        function = found(call["function"])
        inputs = loaded(Path(call["file"]), call["inputs"])
    except BaseException as error:
        print(json.dumps(failed("cannot be imported", error)), file=answers, flush=True)
        return
    print("ready", file=answers, flush=True)
    for _ in sys.stdin:
        try:
            if timer is None:
                timer = Timer()
                for seed in range(SEEDS):
                    torch.manual_seed(seed)
                    sets.append([moved(item, "cuda") for item in inputs(seed)])
            tuned.first = True
            answer = timed(function, sets, timer)
            if tuned.seen:
                tuned.first = False
                answer["chosen_ms"] = timed(function, sets, timer)["ms"]
        except BaseException as error:
            answer = failed("fails", error)
        print(json.dumps(answer), file=answers, flush=True)
    if timer is not None:
        print(json.dumps({"overhead_ms": overhead_ms(timer)}), file=answers, flush=True)


if __name__ == "__main__":
    main()
