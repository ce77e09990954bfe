"""Gives timed work priority over other processes, where the system allows it, and keeps its cores and priority."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

TIMED_NICE = -20
"""On a core that it shares with an ordinary process, a thread gets 99 %."""
TIMED_SLICE_NS = 100_000
"""A thread that wakes runs within this time, as Linux 6.12 and later allow; else it waits until the time slice of the
process that has its core is over: 3 ms, and a kernel of several steps waits at each of them."""
_DEFAULT_SLICE = 0
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}


class _Attributes(ctypes.Structure):
    """`struct sched_attr` of Linux; for ordinary threads `runtime` is the time slice."""

    _fields_ = [
        ("size", ctypes.c_uint32), ("policy", ctypes.c_uint32), ("flags", ctypes.c_uint64), ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32), ("runtime", ctypes.c_uint64), ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    ]  # fmt: skip


@contextlib.contextmanager
def raised(groups: Iterable[int]) -> Iterator[None]:
    """Run all threads of these process groups, each a session of its own, before others within the context.

    Without the right to raise a priority (CAP_SYS_NICE, which root has) only the time slices change.
    """
    with contextlib.ExitStack() as restoring:
        for group in groups:
            restoring.callback(_set(group))
            _slice(group, TIMED_SLICE_NS)
            restoring.callback(_slice, group, _DEFAULT_SLICE)
        yield


def _set(group: int) -> Callable[[], None]:
    """Raise a group; return what sets it back."""
    try:
        before = os.getpriority(os.PRIO_PGRP, group)
        os.setpriority(os.PRIO_PGRP, group, TIMED_NICE)
    except OSError:
        return lambda: None
    # Where Linux shares the cores among sessions first, `nice` compares the threads of one session only.
    session = Path(f"/proc/{group}/autogroup")
    shared = _nice_of(session)
    if shared is not None:
        _write(session, TIMED_NICE)

    def restore() -> None:
        with contextlib.suppress(OSError):  # the group has ended
            os.setpriority(os.PRIO_PGRP, group, before)
        if shared is not None:
            _write(session, shared)

    return restore


def _slice(group: int, nanoseconds: int) -> None:
    """Set the time slice of the threads of a group's first process; threads that they start have it too."""
    number = _SCHED_SETATTR.get(platform.machine())
    if number is None:
        return
    library = ctypes.CDLL(None)
    with contextlib.suppress(OSError):  # the process has ended
        for task in Path(f"/proc/{group}/task").iterdir():
            thread = int(task.name)
            with contextlib.suppress(OSError):
                nice = os.getpriority(os.PRIO_PROCESS, thread)
                attributes = _Attributes(size=ctypes.sizeof(_Attributes), nice=nice, runtime=nanoseconds)
                library.syscall(number, thread, ctypes.byref(attributes), 0)


def _nice_of(session: Path) -> int | None:
    """Return the number in '/autogroup-12 nice 0'; None where the system has no such groups."""
    try:
        return int(session.read_text().split()[-1])
    except (OSError, ValueError, IndexError):
        return None


def _write(session: Path, nice: int) -> None:
    with contextlib.suppress(OSError):
        session.write_text(str(nice))


class Scheduling:
    """On which cores, and with which priority, this process may run: another of the same user can change both."""

    def __init__(self) -> None:
        self._cores = os.sched_getaffinity(0)
        self._nice = os.getpriority(os.PRIO_PROCESS, 0)

    def restore(self) -> None:
        """Give both back to every thread: a candidate that ran before may have taken them."""
        for task in Path("/proc/self/task").iterdir():
            with contextlib.suppress(OSError):  # it has ended, or lowering is not allowed
                os.sched_setaffinity(int(task.name), self._cores)
                os.setpriority(os.PRIO_PROCESS, int(task.name), self._nice)
