"""Rates of a GPU that its copy bandwidth does not show: of the L2 cache, of a single load, of launches."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any

from ..timing.clock import Clock, always

_L2_SHARE = 0.25
"""Share of the L2 cache that is read repeatedly: more of it competes with what the GPU keeps there itself."""
_AGAIN = 64
"""Number of readings: the first one, from device memory, must not count."""
_LAUNCHES = 64
_CHASED_BYTES = 512 << 20
"""Larger than any L2 cache."""
_STEPS = 2000
_STRIDE = 4096 + 128
"""Bytes between two loads that follow each other: another line, and soon another page."""


def memory_rates(clock: Clock) -> dict[str, float | None]:
    """Return `l2_gb_s`, `launch_us` and `latency_ns` of `core.Ceilings`; on a GPU."""
    return {"l2_gb_s": _l2_gb_s(clock), "launch_us": _launch_us(clock), "latency_ns": _latency_ns(clock)}


def _least_ms(clock: Clock, call: Any) -> float:
    clock.sample(always(call), 3)
    return min(clock.sample(always(call), 10).times_ms)


def _l2_gb_s(clock: Clock) -> float | None:
    """Sum the same values in many rows: the rows share their memory, and all but the first are in the cache."""
    import torch

    cache = getattr(torch.cuda.get_device_properties(clock.device), "L2_cache_size", 0)
    count = int(_L2_SHARE * cache) // 4
    if not count:
        return None
    rows = torch.ones(count, device=clock.device).expand(_AGAIN, count)
    return 4 * count * _AGAIN / _least_ms(clock, lambda: rows.sum(dim=1)) / 1e6


def _launch_us(clock: Clock) -> float:
    """Compare a call of many of the smallest kernels with a call of one."""
    import torch

    element = torch.zeros(1, device=clock.device)

    def many() -> None:
        for _ in range(_LAUNCHES):
            element.add_(1.0)

    more = _least_ms(clock, many) - _least_ms(clock, lambda: element.add_(1.0))
    return max(more, 1e-6) * 1e3 / (_LAUNCHES - 1)


def _latency_ns(clock: Clock) -> float | None:
    """Follow a chain of addresses, each read from the one before, as in lmbench's lat_mem_rd.

    None where Triton is missing or does not compile here: a ceiling that stays unknown is no reason to fail.
    """
    with contextlib.suppress(Exception):
        import torch

        from .pointer_chase import chase

        count = _CHASED_BYTES // 4
        step = _STRIDE // 4
        # Every place holds the next one, so that no start leads out of the chain.
        chain = ((torch.arange(count, dtype=torch.int64, device=clock.device) + step) % count).to(torch.int32)
        end = torch.empty(1, dtype=torch.int32, device=clock.device)
        few, many = (
            _least_ms(clock, partial(chase[(1,)], chain, end, steps, num_warps=1)) for steps in (_STEPS, 2 * _STEPS)
        )
        return (many - few) * 1e6 / _STEPS
    return None
