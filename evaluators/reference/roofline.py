"""The profile of a problem on a device: counted work, measured ceilings, known limits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ...core import Ceilings, DeviceLimits, MatrixProduct, Profile
from ...core.cache import Cache
from ..devices import driver_version
from ..profiling.peaks import MATRIX_ROWS
from ..timing.contention import LoadMeter, tolerated_cores
from ..timing.priority import raised
from .client import ReferenceClient


def profile(
    reference_client: ReferenceClient, device: str, memory: Path | None, ours: tuple[int, ...], heeds_load: bool = True
) -> Profile:
    """Let the reference worker count and measure. The load of the processes `ours` is not a disturbance.

    Ceilings are measured once per device and torch version, and cached in `memory`.
    """
    counted = reference_client.call("count")
    properties = reference_client.call("properties")["properties"]
    product = counted["product"]
    return Profile(
        flops=counted["flops"],
        matrix_flops=counted["matrix_flops"],
        min_bytes=counted["min_bytes"],
        eager_bytes=counted["eager_bytes"],
        operators=tuple(counted["operators"]),
        product=MatrixProduct(**product) if product else None,
        ceilings=ceilings(reference_client, device, memory, ours, heeds_load),
        limits=DeviceLimits.of_properties(properties) if properties else None,
        device=reference_client.environment["device"],
    )


def ceilings(
    reference_client: ReferenceClient, device: str, memory: Path | None, ours: tuple[int, ...], heeds_load: bool = True
) -> Ceilings:
    """Return the device's measured peak rates, from the cache in `memory` if this device and torch are in it.

    Rates that were measured while others used the device, without `heeds_load`, are stored separately: they may be too
    low.
    """
    environment = reference_client.environment
    rows = MATRIX_ROWS["cpu" if device == "cpu" else "cuda"]
    key = f"{environment['device']}, torch {environment['torch']}, {rows} rows, {', '.join(Ceilings.model_fields)}"
    key += "" if heeds_load else ", quick"
    known = Cache(memory / "ceilings.json" if memory else None, Ceilings)
    if (before := known.get(key)) is not None:
        return before
    meter = LoadMeter()
    meter.start(ours)
    with raised((reference_client.pid,)):
        answer = reference_client.call("ceilings")
    found = Ceilings(**{name: answer[name] for name in Ceilings.model_fields})
    if device != "cpu" or not heeds_load or (meter.other_cores() or 0.0) < tolerated_cores():
        known.put(key, found)
    return found


def event_overhead_ms(
    new_reference_client: Callable[[], ReferenceClient],
    reference_client: ReferenceClient,
    memory: Path | None,
    graph: bool,
) -> float:
    """Return the ms subtracted from every sample on a GPU (see `event_overhead`), measured now or cached.

    `new_reference_client` starts one for nothing else: the profiler changes the process.
    """
    driver = driver_version()
    if "uuid" not in reference_client.environment or driver is None:
        return 0.0
    key = ", ".join(
        (reference_client.environment["device"], f"torch {reference_client.environment['torch']}", f"driver {driver}")
    )
    key += ", graph" if graph else ""
    known = Cache(memory / "overheads.json" if memory else None, float)
    if (before := known.get(key)) is not None:
        return before
    measuring = new_reference_client()
    try:
        found = float(measuring.call("overhead", graph=graph)["overhead_ms"])
    finally:
        measuring.close()
    known.put(key, found)
    return found
