"""A command's output up to its end, and who holds it where it does not end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

LIMIT_S = 300.0
"""Longer than any command here waits for one of its processes."""
STACKS_S = 5.0
"""So long processes have to write where they are."""


def output(run: subprocess.Popen[str], others: Callable[[], Iterable[int]], limit_s: float = LIMIT_S) -> str:
    """Return what a command prints until it and all that hold its output have ended.

    After the limit the test fails with what holds it and with the `others`: state, what the kernel waits in, and
    of Python processes that have PYTHONFAULTHANDLER the stacks of all threads.
    """
    assert run.stdout is not None
    pipe = Path(f"/proc/self/fd/{run.stdout.fileno()}").readlink()
    with contextlib.suppress(subprocess.TimeoutExpired):
        return run.communicate(timeout=limit_s)[0]
    holding = _holders(pipe)
    pids = sorted({*holding, *others()})
    told = [f"{'holds the output' if pid in holding else 'does not hold it'}: {_state(pid)}" for pid in pids]
    said = ""
    for number in (signal.SIGABRT, signal.SIGKILL):  # by the first one Python writes its stacks
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            said = run.communicate(timeout=STACKS_S)[0]
            break
    lines = "\n".join(told)
    pytest.fail(f"its output has not ended after {limit_s:g} s (exit code {run.poll()}):\n{lines}\n\n{said}")


def _holders(pipe: Path) -> set[int]:
    """The processes, except this one, that have a pipe open."""
    found = set()
    for place in Path("/proc").glob("[0-9]*/fd"):
        with contextlib.suppress(OSError):
            if pipe in [entry.readlink() for entry in place.iterdir()]:
                found.add(int(place.parent.name))
    return found - {os.getpid()}


def _state(pid: int) -> str:
    place, told = Path(f"/proc/{pid}"), [f"process {pid}"]
    with contextlib.suppress(OSError):
        fields = dict(line.split(":\t", 1) for line in (place / "status").read_text().splitlines() if ":\t" in line)
        told.append(f"of {fields['PPid'].strip()}, {fields['State'].strip()}, {fields['Threads'].strip()} threads")
        told.append(f"waits in {(place / 'wchan').read_text()}")
        told.append((place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()[:300])
    return ", ".join(told)
