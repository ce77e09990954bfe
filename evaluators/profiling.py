"""The profile of a problem on a device: counted work, measured ceilings, known limits."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from ..core import Ceilings, DeviceLimits, MatrixProduct, Profile, ResultsError
from ..core.files import write_whole
from .contention import LoadMeter, tolerated_cores
from .judging import Judge


def profile(judge: Judge, device: str, memory: Path | None, ours: tuple[int, ...]) -> Profile:
    """Ask the judge to count and to measure. `ours` are the processes whose load is no disturbance.

    Ceilings are measured once per device and torch version, and remembered in `memory`.
    """
    counted = judge.call("count")
    properties = judge.call("properties")["properties"]
    product = counted["product"]
    return Profile(
        flops=counted["flops"],
        matrix_flops=counted["matrix_flops"],
        min_bytes=counted["min_bytes"],
        eager_bytes=counted["eager_bytes"],
        operators=tuple(counted["operators"]),
        product=MatrixProduct(**product) if product else None,
        ceilings=_ceilings(judge, device, memory, ours),
        limits=_limits(properties) if properties else None,
        device=judge.environment["device"],
    )


def _limits(properties: dict[str, Any]) -> DeviceLimits:
    return DeviceLimits(
        capability=10 * properties["major"] + properties["minor"],
        multiprocessors=properties["multi_processor_count"],
        shared_bytes=properties.get("shared_memory_per_block_optin", properties["shared_memory_per_block"]),
        registers=properties["regs_per_multiprocessor"],
        threads=properties["max_threads_per_multi_processor"],
    )


def _ceilings(judge: Judge, device: str, memory: Path | None, ours: tuple[int, ...]) -> Ceilings:
    key = f"{judge.environment['device']}, torch {judge.environment['torch']}, {', '.join(Ceilings.model_fields)}"
    path = memory / "ceilings.json" if memory else None
    known: dict[str, Any] = {}
    if path is not None:
        with contextlib.suppress(OSError, ValueError):
            known = json.loads(path.read_text())
    if key not in known:
        meter = LoadMeter()
        meter.start(ours)
        answer = judge.call("ceilings")
        known[key] = {name: answer[name] for name in Ceilings.model_fields}
        quiet = device != "cpu" or (meter.foreign_cores() or 0.0) < tolerated_cores()
        if path is not None and quiet:
            with contextlib.suppress(ResultsError):  # it only saves the next run some time
                write_whole(path, json.dumps(known, indent=1))
    return Ceilings(**known[key])
