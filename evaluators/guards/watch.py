"""State that a candidate's code must not change: recorded before it runs, compared after each step.

This runs in the candidate's process, where the candidate can reach everything. It catches the known ways to disturb a
measurement; only the separation of processes is a guarantee.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import _base as futures
from concurrent.futures import thread as pools
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, cast

from ...core import source_lines
from .global_state import GlobalState
from .identities import Identities

AT_MOST = 8
"""Violations reported per step."""
GRACE_S = 0.05
"""Seconds that a pool's thread may take to go back to waiting after its result is there."""

Violation = dict[str, str]
"""The fields of a `core.Rejection`."""

_WHY = {
    "patched-function": "checking and timing rest on it; leave what other modules define as it is",
    "background-thread": "a thread goes on when the call has returned, and its work would not be timed; finish the "
    "work within the call (an idle pool of concurrent.futures may stay)",
    "background-process": "a process that the kernel started goes on when the call has returned; start none",
    "global-state": "it holds for the whole process and changes how everything else is computed or timed; leave it",
    "stream": "work on another stream escapes the clock; launch on the current stream and leave that as it is",
    "l2-policy": "data that stays in the L2 cache between calls makes them look faster than in use; leave the policy",
}


class Watch:
    """Remembers the state of a worker's process; `objects` are instances whose methods must not be replaced."""

    def __init__(self, device: str, objects: Sequence[object] = ()) -> None:
        self._identities = Identities(objects)
        self._state = GlobalState(device)
        self._before = self._state.read()
        self._threads = frozenset(sys._current_frames())
        self._children = frozenset(_children())
        self._forks: list[bool] = []
        self._unfinished: list[str] = []
        self._hooked: set[tuple[str, str]] = set()
        self._hooks = self._state.hooks()
        # Compilers are started by subprocess, which does not call this.
        os.register_at_fork(before=lambda: self._forks.append(True))
        # Bound now: a candidate may replace them, which is reported and must not blind the check.
        self._sleep, self._now, self._frames = time.sleep, time.monotonic, sys._current_frames

    def follow(self, module: ModuleType) -> None:
        """Watch a module of the evaluator's own from now on: the problem, at other sizes too."""
        self._identities.follow(module)

    @contextlib.contextmanager
    def of_own_file(self) -> Iterator[None]:
        """Execute an unchanged file of the user's again in this context: what it replaces is as it was, afterwards.

        It had replaced the same before this was created; what a candidate replaced before stays to be found.
        """
        before = frozenset(self._identities.changed())
        try:
            yield
        finally:
            self._identities.put_back(before)

    def violations(self, after: str = "") -> list[Violation]:
        """Return the rules that are broken now; `after` names the step just done, for the message."""
        found = [("patched-function", name) for name in self._identities.changed()]
        found += [key for key, value in self._state.read().items() if not _same(value, self._before[key])]
        found += [("background-thread", name) for name in self._busy_threads()]
        found += [("background-thread", name) for name in self._unfinished]
        found += [("background-process", name) for name in _children() if name not in self._children]
        found += [("background-process", "os.fork")] if self._forks else []
        found += [key for key in self._hooked if key not in found]
        self._hooked.clear()
        self._unfinished.clear()
        self._forks.clear()
        where = f", after {after}" if after else ""
        return [{"rule": rule, "where": f"{name}{where}", "why": _WHY[rule]} for rule, name in found[:AT_MOST]]

    def call_returned(self) -> None:
        """Call this right after a timed call: work that a pool still does then was not finished within it."""
        self._hooked |= {key for key, read in self._hooks.items() if read() != self._before[key]}
        if len(self._unfinished) < AT_MOST:
            # No name for the frames: this frame is among them, and a cycle would keep its callers' tensors alive.
            self._unfinished += [
                _name(frame)
                for ident, frame in self._frames().items()
                if ident not in self._threads and not _has_result(frame)
            ]

    def _busy_threads(self) -> list[str]:
        """Return Python threads that were not there before and are busy."""
        deadline = self._now() + GRACE_S
        while True:
            busy = [
                _name(frame)
                for ident, frame in self._frames().items()
                if ident not in self._threads and not _waits(frame)
            ]
            if not busy or self._now() >= deadline:
                return busy
            self._sleep(0.001)


_POOL_WAITS = cast(Any, pools)._worker.__code__


def _waits(frame: FrameType) -> bool:
    """Return whether this is an idle pool thread: it takes work from an empty queue."""
    if frame.f_code is not _POOL_WAITS:
        return False
    local = frame.f_locals
    return local.get("work_item") is None and local["work_queue"].qsize() == 0


_POOL_RUNS = pools._WorkItem.run.__code__
_POOL_CALLS = next(
    (number for number, line in enumerate(source_lines(inspect.getsource(_POOL_RUNS)), _POOL_RUNS.co_firstlineno)
     if "self.fn(" in line or "self.task" in line),
    None,
)  # fmt: skip
"""The line that runs a submitted function, which depends on Python's version."""
_POOL_FILES = frozenset([_POOL_WAITS.co_filename, futures.__file__, threading.__file__])


def _has_result(frame: FrameType) -> bool:
    """Return whether a pool's thread has nothing left to start, or has finished its work and is about to report it."""
    if frame.f_code is _POOL_WAITS and frame.f_locals["work_queue"].qsize():
        return False
    if frame.f_code is _POOL_RUNS and frame.f_lineno == _POOL_CALLS:
        return False
    return frame.f_code.co_filename in _POOL_FILES


def _name(frame: FrameType) -> str:
    return f"{frame.f_code.co_name} in {Path(frame.f_code.co_filename).name}"


def _same(now: object, before: object) -> bool:
    return now is before or now == before


def _children() -> list[str]:
    """Return the processes that this one started and that still run, as 'NAME (PID)'."""
    found = []
    for task in os.listdir("/proc/self/task"):  # noqa: PTH208  (pathlib takes five times as long)
        with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/children") as file:
            found += [f"{_command(pid)} ({pid})" for pid in file.read().split() if _runs(int(pid))]
    return found


def _command(pid: str) -> str:
    """Return the process' name; a sandbox may hide its folder in /proc."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm") as file:
        return file.read().strip()
    return "a process"


def _runs(pid: int) -> bool:
    """Return whether a child still runs."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False
