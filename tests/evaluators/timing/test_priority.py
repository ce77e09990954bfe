"""The priority of what is timed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernelwright.evaluators.timing.priority import TIMED_NICE, TIMED_SLICE_NS, raised

TWO_THREADS = "import threading; print(threading.Thread(target=input).start(), flush=True)"


@pytest.fixture
def session() -> Iterator[int]:
    """A process with two threads that is a session of its own."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", TWO_THREADS]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def priorities(pid: int) -> list[int]:
    """The `nice` of each thread."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int((task / "stat").read_text().rpartition(")")[2].split()[16]) for task in tasks]


@pytest.mark.skipif(os.geteuid() != 0, reason="raising a priority needs root")
def test_all_threads_are_raised_and_set_back(session: int) -> None:
    os.setpriority(os.PRIO_PGRP, session, 3)
    try:
        os.setpriority(os.PRIO_PGRP, session, -1)
    except PermissionError:
        pytest.skip("this root has no CAP_SYS_NICE")
    os.setpriority(os.PRIO_PGRP, session, 3)
    group = Path(f"/proc/{session}/autogroup")
    with raised([session]):
        assert priorities(session) == [TIMED_NICE] * 2
        assert not group.exists() or group.read_text().endswith(f"nice {TIMED_NICE}\n")
    assert priorities(session) == [3, 3]
    assert not group.exists() or group.read_text().endswith("nice 0\n")


def time_slices(pid: int) -> set[str]:
    """In ms, of each thread, as Linux 6.12 and later show them."""
    texts = [(task / "sched").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    return {match[1] for text in texts if (match := re.search(r"^se\.slice\s*:\s*(\d+)", text, re.MULTILINE))}


def test_threads_have_short_time_slices_meanwhile(session: int) -> None:
    if not Path("/proc/self/sched").exists() or not (before := time_slices(session)):
        pytest.skip("this Linux has no time slices of its own for a thread, or does not show them")
    with raised([session]):
        assert time_slices(session) == {str(TIMED_SLICE_NS)}
    assert time_slices(session) == before


def test_without_the_right_nothing_changes(session: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise PermissionError

    before = priorities(session)
    monkeypatch.setattr(os, "setpriority", refuse)
    with raised([session]):
        assert priorities(session) == before
    assert priorities(session) == before


def test_a_group_that_has_ended_is_left_out() -> None:
    with subprocess.Popen([sys.executable, "-c", ""], start_new_session=True) as process:
        process.wait()
    with raised([process.pid]):
        pass
