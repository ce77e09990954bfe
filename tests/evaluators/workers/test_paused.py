"""A worker that is paused takes nothing of the processor from what is timed meanwhile, whatever it has started."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from kernelwright.core import Problem
from kernelwright.evaluators.pipeline.processes import Processes
from kernelwright.evaluators.sandbox import landlock
from kernelwright.evaluators.settings import Sandbox

from ...conftest import FAST, torch_kernel

NO_LANDLOCK = None if landlock.abi() >= landlock.CONFINES_SIGNALS else "an old kernel's Landlock"
WATCHED_S = 0.3
STOPPED_S = 10.0
BURNING = """
import os, subprocess, sys, threading

BURNS = "import contextlib, os\\nwith contextlib.suppress(OSError): os.setsid()\\nwhile True: pass  # NAME"
subprocess.Popen([sys.executable, "-S", "-c", BURNS])


def burn():
    while True:
        pass


threading.Thread(target=burn, daemon=True).start()
"""
"""A thread, and a process that would leave the group."""


@pytest.mark.skipif(NO_LANDLOCK is not None, reason=str(NO_LANDLOCK))
def test_a_paused_worker_and_what_it_started_get_no_processor(scale_problem: Problem) -> None:
    name = f"burns{os.getpid()}"
    processes = Processes("cpu", FAST.limits, Sandbox.LANDLOCK)
    try:
        worker = processes.candidate(scale_problem)()
        source = worker.inbox / "kernel_1.py"
        source.write_text(torch_kernel("return x", BURNING.replace("NAME", name)).source)
        assert worker.call(60, op="load", source=str(source), serial=1, keep=False)["ok"]
        pids = [worker.pid, *_named(name)]
        assert len(pids) == 2 and all(_used(pid, WATCHED_S) > 0 for pid in pids)

        worker.pause()
        _await_stop(pids)
        assert [_used(pid, WATCHED_S) for pid in pids] == [0, 0]

        assert worker.call(20, op="release")["ok"]
        assert all(_used(pid, WATCHED_S) > 0 for pid in pids)
        worker.pause()
        worker.discard()
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    finally:
        processes.close()


def _named(name: str) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if name.encode() in (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found


def _await_stop(pids: list[int]) -> None:
    """A thread that waits for a processor sees the signal when it next gets one."""
    deadline = time.monotonic() + STOPPED_S
    stats = [path for pid in pids for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    assert len(stats) > len(pids), "one of them has several threads"
    while any(stat.read_text().rpartition(")")[2].split()[0] != "T" for stat in stats):
        assert time.monotonic() < deadline, "not all threads have stopped"
        time.sleep(0.01)


def _used(pid: int, seconds: float) -> int:
    """The processor time in ticks that a process takes in these seconds."""

    def ticks() -> int:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    before = ticks()
    time.sleep(seconds)
    return ticks() - before
