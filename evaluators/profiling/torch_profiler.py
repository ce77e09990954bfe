"""Profiles one call of a model with torch's profiler: kernels of a GPU, or operators on a CPU.

Use it after the timing: it loads CUPTI, which stays loaded in the process. The first window of a process only opens
CUPTI; the second one is reported.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from ...core.devices import architecture_name
from ..languages.base import CompiledKernel, imported_supports
from ..workers.channel import Message
from .gpu_properties import describe_gpu
from .machine_code.reader import read_code
from .occupancy import occupancy

ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
"""Categories of the trace's events that take time on a GPU."""
WINDOWS = 4
"""Maximum number of profiler sessions on a GPU: CUPTI sometimes loses the events of one on a busy machine."""
CALLS, CALLS_MS = 5, 50.0
"""Limits of profiled calls on a CPU, in number and in milliseconds; the fastest call is reported."""
OWN_CODE = "own code"
"""On a CPU: the time outside torch's operators."""


def profile_call(
    call: Callable[[], object],
    device: str,
    own: Callable[[str], bool] | None = None,
    before: Callable[[], object] | None = None,
    code: bool = True,
) -> Message:
    """Return the fields of `core.KernelProfile` for one call; with `code`, facts of the machine code of own kernels.

    `own` decides by name whether a kernel is the candidate's; by default those that Triton or TileLang compiled in this
    process are. `before` runs ahead of the call and is not recorded: flush the L2 cache there to match the measured
    times. Kernels on all streams count.
    """
    if device.startswith("cuda"):
        return _profile_gpu(call, device, own, before, code)
    return _profile_cpu(call, before)


def _profile_gpu(
    call: Callable[[], object],
    device: str,
    own: Callable[[str], bool] | None,
    before: Callable[[], object] | None,
    code: bool,
) -> Message:
    import torch

    trace: Message = {}
    for number in range(WINDOWS):
        if before is not None:
            before()
        torch.cuda.synchronize(device)
        trace = traced(call, device)
        if number and _on_device(trace):
            break
    properties = describe_gpu(device)
    compiled = compiled_kernels()
    names = {kernel.name for kernel in compiled}
    return read_trace(trace, compiled, own or names.__contains__, architecture_name(properties), code)


def traced(call: Callable[[], object], device: str) -> Message:
    """Return the Chrome trace of the GPU's work."""
    import torch

    # Not torch.profiler.profile, which first imports torch's inductor, for a second.
    profiler = torch.autograd.profiler.profile(use_device="cuda", use_cpu=False, use_kineto=True)
    with profiler:
        call()
        torch.cuda.synchronize(device)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        trace: Message = json.loads(path.read_text(errors="replace"))
        return trace


def read_trace(
    trace: Message,
    compiled: Sequence[CompiledKernel],
    own: Callable[[str], bool],
    architecture: str,
    code: bool = True,
) -> Message:
    """Return the fields of `core.KernelProfile` from the Chrome trace of one call."""
    events = _on_device(trace)
    launched: dict[tuple[Any, ...], list[Any]] = {}
    for event in events:
        given = event.get("args", {})
        launch = (given.get("registers per thread"), given.get("shared memory"), _product(given.get("block")))
        launched.setdefault((event["name"], _product(given.get("grid")), *launch), []).append(event)
    kernels = [_kernel(key, group, compiled, own, architecture, code) for key, group in launched.items()]
    return {"kernels": sorted(kernels, key=lambda kernel: -kernel["time_ms"])}


def _on_device(trace: Message) -> list[Message]:
    return [event for event in trace.get("traceEvents", []) if event.get("cat") in ON_DEVICE and "dur" in event]


def _kernel(
    key: tuple[Any, ...],
    events: Sequence[Message],
    compiled: Sequence[CompiledKernel],
    own: Callable[[str], bool],
    architecture: str,
    code: bool,
) -> Message:
    name, blocks, registers, shared, threads = key
    known = find_kernel(compiled, name, registers)
    found: Message = {
        "name": name,
        "launches": len(events),
        "time_ms": sum(event["dur"] for event in events) / 1000,
        "own": own(name),
        "registers": registers,
        "spills": known.spills if known else None,
        "tensor_cores": known.tensor_cores if known else None,
        "shared_bytes": shared,
        "threads": threads,
        "blocks": blocks,
        "code": _code(known) if code and known and own(name) else None,
    }
    kept = occupancy(architecture, threads, registers, shared or 0) if threads and registers else None
    if kept is not None:
        found |= {"occupancy": kept.share, "limited_by": kept.limited_by, "resident_blocks": kept.blocks}
    return found


def _code(known: CompiledKernel) -> Message | None:
    try:
        binary = known.binary() if known.binary is not None else None
    except OSError:  # it left the compiler's cache
        return None
    facts = read_code(binary, known.name) if binary is not None else None
    return facts.model_dump() if facts is not None else None


def _product(extents: Sequence[int] | None) -> int | None:
    if not extents:
        return None
    product = 1
    for extent in extents:
        product *= int(extent)
    return product


def _profile_cpu(call: Callable[[], object], before: Callable[[], object] | None) -> Message:
    """Return torch's operators, each with its exclusive time, and the rest as the candidate's own code.

    Of the fastest call: the first one starts the profiler, and other processes slow some.
    """
    profiled: list[tuple[float, Message]] = []
    while len(profiled) < CALLS and sum(total_ms for total_ms, _ in profiled) < CALLS_MS:
        profiled.append(_profiled_on_cpu(call, before))
    return min(profiled, key=lambda item: item[0])[1]


def _profiled_on_cpu(call: Callable[[], object], before: Callable[[], object] | None) -> tuple[float, Message]:
    """Return the milliseconds of a call, and its operators."""
    import torch

    if before is not None:
        before()
    profiler = torch.autograd.profiler.profile(use_cpu=True, use_kineto=True)
    with profiler:
        start = time.perf_counter()
        call()
        total_ms = (time.perf_counter() - start) * 1000
    operators = [
        {"name": event.key, "launches": event.count, "time_ms": event.self_cpu_time_total / 1000, "own": False}
        for event in profiler.key_averages()
    ]
    rest_ms = max(0.0, total_ms - sum(operator["time_ms"] for operator in operators))
    kernels = [*operators, {"name": OWN_CODE, "launches": 1, "time_ms": rest_ms, "own": True}]
    return total_ms, {"kernels": sorted(kernels, key=lambda kernel: -kernel["time_ms"])}


def compiled_kernels() -> list[CompiledKernel]:
    """All kernels that this process compiled for a GPU so far, in any language."""
    return [kernel for support in imported_supports() for kernel in support.compiled_kernels()]


def find_kernel(kernels: Iterable[CompiledKernel], name: str, registers: int | None) -> CompiledKernel | None:
    """The compiled kernel of a name; of several, as TileLang's 'main_kernel', the one that spills most."""
    same = [kernel for kernel in kernels if kernel.name == name and registers in (None, kernel.registers)]
    return max(same, key=lambda kernel: kernel.spills, default=None)
