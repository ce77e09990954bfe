"""Whether other processes hold the memory of a GPU that a kernel lacked: then its failure is not a verdict."""

from __future__ import annotations

import re
import time

from ..timing.telemetry import memory_of

HELD = 0.1
"""A smaller share of a GPU's memory in other processes is not why a kernel lacks memory."""
FREED_S = 5.0
"""Until then the driver has freed what processes held that were ended."""
_POLL_S = 0.1
_ASKED = re.compile(r"Tried to allocate (\d{1,9}(?:\.\d{1,9})?) ([KMGT])iB")
_OWN = re.compile(r"this process has (\d{1,9}(?:\.\d{1,9})?) GiB memory in use")
_GIB = {"K": 2.0**-20, "M": 2.0**-10, "G": 1.0, "T": 2.0**10}


def may_be_short(gpu: str | None) -> bool:
    """Return whether so much of a GPU's memory is in use, by whomever, that others may have taken it."""
    memory = None if gpu is None else memory_of(gpu)
    return memory is not None and memory.used_gib >= HELD * memory.total_gib


def held_by_others(gpu: str | None, error: str) -> str | None:
    """Return the cause where other processes hold the memory that a kernel lacked; None where nothing shows that.

    Called after this evaluator's own processes on the GPU have ended. A kernel that asked for more than the GPU has, by
    what `error` says of that request and of what it held, fails on an empty one too.
    """
    deadline = time.monotonic() + FREED_S
    while gpu is not None and (memory := memory_of(gpu)) is not None:
        asked = max((float(count) * _GIB[unit] for count, unit in _ASKED.findall(error)), default=0.0)
        asked += max(map(float, _OWN.findall(error)), default=0.0)
        if asked > memory.total_gib or memory.used_gib < HELD * memory.total_gib:
            return None
        if time.monotonic() > deadline:
            return (
                f"other processes hold {memory.used_gib:.1f} of {memory.total_gib:.1f} GiB of the GPU's memory; "
                "end them, or choose another GPU"
            )
        time.sleep(_POLL_S)
    return None
