"""How long each region of a step takes with Inductor's code around it, by torch.profiler.

Inductor knows from which nodes it made each kernel. Its code gets a call before each kernel that begins a range of the
region's name. On a CPU a range is as long as its kernels; on a GPU the kernels count that were launched in it.
"""

from __future__ import annotations

import bisect
import contextlib
import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch._inductor import debug
from torch._inductor.codegen.wrapper import PythonWrapperCodegen
from torch._inductor.compile_fx import compile_fx_inner
from torch._inductor.virtualized import V

from ...core import ResultsError
from ...core.files import write_whole
from ...core.text import first_line
from .region import REGION_MARK
from .steps import LISTENERS, StepShares

PATCHES = {"trace.provenance_tracking_level": 1, "force_disable_caches": True, "triton.cudagraphs": False}
"""Inductor's settings while shares are measured: ranges cannot enclose kernels within a CUDA graph."""
QUIET, PROFILED = 3, 5
"""Steps without a compilation before the profiler starts, and steps that it looks at."""
_RANGE = "kernelwright region "


class _OpenRange:
    """The range of this process that is open."""

    def __init__(self) -> None:
        self._open: Any = None
        self.profiling = False

    def enter(self, name: str) -> None:
        self.leave()
        if self.profiling:
            self._open = torch.profiler.record_function(_RANGE + name)
            self._open.__enter__()

    def leave(self) -> None:
        if self._open is not None:
            self._open.__exit__(None, None, None)
            self._open = None


_RANGES = _OpenRange()


def enter_range(name: str) -> None:
    """Begin the profiler range of a kernel, called by Inductor's code; the previous range ends."""
    _RANGES.enter(name)


@contextlib.contextmanager
def _ranges_in_code() -> Iterator[None]:
    """Make Inductor begin a range before each kernel, instead of a comment on the kernel's nodes."""
    before = PythonWrapperCodegen.write_provenance_debug_handle

    def write(self: Any, kernel_name: str, debug_handle: int | None = None) -> None:
        if debug_handle is None or V.graph.cpp_wrapper:
            before(self, kernel_name, debug_handle)
            return
        made_of = debug._inductor_triton_kernel_to_post_grad_node_info.get(f"{kernel_name}:{debug_handle}", [])
        custom = (node.meta.get("custom", {}) for node in V.graph.module.graph.nodes if node.name in set(made_of))
        keys = sorted({item[REGION_MARK] for item in custom if REGION_MARK in item})
        self.imports.writeline(f"from {__name__} import enter_range as kernelwright_range")
        self.writeline(f"kernelwright_range({','.join(keys)!r})")

    with mock.patch.object(PythonWrapperCodegen, "write_provenance_debug_handle", write):
        yield


class StepProfiler:
    """Profiles a few steps of this process with torch.profiler, once nothing is compiled any more.

    A step goes from one mark of `kernelwright.step()` to the next, or without marks from one call of a graph to its
    next one.
    """

    def __init__(self) -> None:
        self._told: list[Callable[[StepShares], None]] = []
        self._graphs = 0
        self._anchor: int | None = None
        self._marked = self._finished = False
        self._count = 0
        """Steps since something was compiled."""
        self._profiler: Any = None
        self._since = 0.0
        self._quiet_ms = 0.0
        LISTENERS.append(self._mark)

    def tell(self, done: Callable[[StepShares], None]) -> None:
        """Have a function called with the shares."""
        self._told.append(done)

    def inner_compile(self, graph_module: Any, example_inputs: Sequence[Any], **options: Any) -> Any:
        """Compile a graph as Inductor does, with ranges. `PATCHES` must be among its settings."""
        with _ranges_in_code():
            compiled = compile_fx_inner(graph_module, example_inputs, **options)
        self._restart()
        self._graphs += 1
        number = 0 if options.get("is_backward") else self._graphs

        def call(arguments: list[Any]) -> Any:
            if number:  # a profiler that were started within a backward pass would end with it
                self._called(number)
            try:
                return compiled(arguments)
            finally:
                _RANGES.leave()

        call._boxed_call = True  # type: ignore[attr-defined]
        return call

    def _mark(self, value: Any) -> None:
        if not self._marked:
            self._marked = True
            self._restart()
        self._boundary()

    def _called(self, number: int) -> None:
        if self._marked or self._finished:
            return
        if self._anchor is None:
            self._anchor = number
        if self._anchor == number:
            self._boundary()

    def _restart(self) -> None:
        self._count, self._anchor = 0, None
        if self._profiler is not None:
            self._profiler.stop()
            self._profiler, _RANGES.profiling = None, False

    def _boundary(self) -> None:
        if self._finished:
            return
        self._count += 1
        try:
            if self._count == 2:
                self._since = _now()
            elif self._count == QUIET + 2:
                self._quiet_ms = (_now() - self._since) / QUIET
                self._start()
            elif self._count == QUIET + 2 + PROFILED:
                self._finish()
        except Exception as error:  # a profiler that does not work here is no reason to stop a model
            self._finished, _RANGES.profiling = True, False
            warnings.warn(f"kernelwright: shares of the step were not taken: {first_line(error)}", stacklevel=2)

    def _start(self) -> None:
        from torch.profiler import ProfilerActivity, profile

        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])]
        self._profiler = profile(activities=activities, acc_events=True)
        self._profiler.start()
        _RANGES.profiling = True
        self._since = _now()

    def _finish(self) -> None:
        _RANGES.leave()
        profiled_ms = (_now() - self._since) / PROFILED
        self._finished, _RANGES.profiling = True, False
        self._profiler.stop()
        events = self._profiler.profiler.kineto_results.events()
        self._profiler = None
        shares = shares_of(events, profiled_ms, self._quiet_ms)
        for done in self._told:
            done(shares)


def shares_of(events: Sequence[Any], profiled_ms: float, quiet_ms: float, steps: int = PROFILED) -> StepShares:
    """Return the shares that events of torch.profiler show.

    `profiled_ms` is the time of a step while they were taken. It stands for the step where kernels ran on the CPU, as
    theirs are as much slower. Where a GPU ran, the profiler slowed the host alone, so that `quiet_ms`, the time of a
    step before, is the step's.
    """
    on_host = torch.autograd.DeviceType.CPU
    kernels = [
        item
        for item in events
        if item.device_type() != on_host and not item.name().startswith(_RANGE) and not _is_annotation(item)
    ]
    ranges = sorted(
        (item.start_ns(), item.start_ns() + item.duration_ns(), item.name().removeprefix(_RANGE))
        for item in events
        if item.device_type() == on_host and item.name().startswith(_RANGE)
    )
    found: dict[str, float] = {}

    def count(name: str, nanoseconds: float) -> None:
        keys = [key for key in name.split(",") if key]
        for key in keys:
            found[key] = found.get(key, 0.0) + nanoseconds / len(keys) / steps / 1e6

    if not kernels:
        busy_ns = 0
        for start, end, name in ranges:
            count(name, end - start)
            busy_ns += end - start
        return _step(profiled_ms, busy_ns, steps, found)
    launched = {
        item.correlation_id(): item.start_ns()
        for item in events
        if item.device_type() == on_host and item.name().startswith(("cu", "hip"))
    }
    starts = [start for start, _, _ in ranges]
    for item in kernels:
        at = launched.get(item.correlation_id(), -1)
        place = bisect.bisect_right(starts, at) - 1
        if place >= 0 and at <= ranges[place][1]:
            count(ranges[place][2], item.duration_ns())
    return _step(quiet_ms, _covered(kernels), steps, found)


def _is_annotation(event: Any) -> bool:
    """Return whether an event on the device is a range that others opened, such as the optimizer's step."""
    return bool(getattr(event, "is_user_annotation", lambda: False)())


def _step(step_ms: float, busy_ns: float, steps: int, regions: dict[str, float]) -> StepShares:
    busy_ms = busy_ns / steps / 1e6
    return StepShares(max(step_ms, busy_ms), max(0.0, step_ms - busy_ms), steps, regions)


def _covered(events: Sequence[Any]) -> float:
    """Return the number of nanoseconds in which at least one of the events was active."""
    covered, reached = 0.0, 0
    for start, end in sorted((item.start_ns(), item.start_ns() + item.duration_ns()) for item in events):
        covered += max(0, end - max(start, reached))
        reached = max(reached, end)
    return covered


def _now() -> float:
    """Return the time in milliseconds, when all that was launched is done."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter() * 1e3


@lru_cache(maxsize=1)
def step_profiler() -> StepProfiler:
    """Return the profiler of this process."""
    return StepProfiler()


@lru_cache(maxsize=1)
def write_shares(path: Path) -> StepProfiler:
    """Return the profiler of this process, which writes its results to a file, or warns if that fails."""

    def write(shares: StepShares) -> None:
        try:
            write_whole(path, json.dumps(asdict(shares)), "choose another KERNELWRIGHT_SHARES")
        except ResultsError as error:
            warnings.warn(f"kernelwright: {error}", stacklevel=2)

    profiler = step_profiler()
    profiler.tell(write)
    return profiler
