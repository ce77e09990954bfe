"""A command's output up to its end, and who holds it where it does not end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

QUIET_S = 150.0
"""Longer than any command here waits for one of its processes. A process that waits for a processor is not quiet."""
AT_WORK = 0.1
"""The share of the looks at which something is at work where a command goes on: one that hangs still polls."""
STACKS_S = 5.0
"""So long processes have to write where they are."""


def output(run: subprocess.Popen[str], others: Callable[[], Iterable[int]], quiet_s: float = QUIET_S) -> str:
    """Return what a command prints until it and all that hold its output have ended.

    Where these and the `others` have not been at work for so long, the test fails with the state of each, what the
    kernel waits in, and of Python processes that have PYTHONFAULTHANDLER the stacks of all threads.
    """
    assert run.stdout is not None
    pipe = Path(f"/proc/self/fd/{run.stdout.fileno()}").readlink()
    looks = deque[bool](maxlen=int(quiet_s))
    while len(looks) < quiet_s or sum(looks) >= AT_WORK * len(looks):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return run.communicate(timeout=1)[0]
        looks.append(any(map(_at_work, {*_holders(pipe), *others()})))
    holding = _holders(pipe)
    pids = sorted({*holding, *others()})
    states = [f"{'holds the output' if pid in holding else 'does not hold it'}: {_state(pid)}" for pid in pids]
    said = ""
    for number in (signal.SIGABRT, signal.SIGKILL):  # by the first one Python writes its stacks
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            said = run.communicate(timeout=STACKS_S)[0]
            break
    lines = "\n".join(states)
    pytest.fail(f"it does nothing, and its output has not ended (exit code {run.poll()}):\n{lines}\n\n{said}")


def _at_work(pid: int) -> bool:
    """Return whether a thread of it runs, waits for a processor or for a disk."""
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):
            if stat.read_text().rpartition(")")[2].split()[0] in "RD":
                return True
    return False


def _holders(pipe: Path) -> set[int]:
    """The processes, except this one, that have a pipe open."""
    found = set()
    for place in Path("/proc").glob("[0-9]*/fd"):
        with contextlib.suppress(OSError):
            if pipe in [entry.readlink() for entry in place.iterdir()]:
                found.add(int(place.parent.name))
    return found - {os.getpid()}


def _state(pid: int) -> str:
    place, facts = Path(f"/proc/{pid}"), [f"process {pid}"]
    with contextlib.suppress(OSError):
        fields = dict(line.split(":\t", 1) for line in (place / "status").read_text().splitlines() if ":\t" in line)
        facts.append(f"of {fields['PPid'].strip()}, {fields['State'].strip()}, {fields['Threads'].strip()} threads")
        facts.append(f"waits in {(place / 'wchan').read_text()}")
        facts.append((place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()[:300])
    return ", ".join(facts)
