"""Faults in between healthy configs of a search: each has its own status, and the journal loses nothing."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from kernelwright.core import (
    Budget,
    Evaluation,
    Journal,
    Problem,
    ResultsError,
    SearchSpace,
    Status,
    Trial,
    read_journal,
)
from kernelwright.core.events import Emit, Event, TrialDone, ignore
from kernelwright.core.journal import of
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.settings import Limits
from kernelwright.tuners.grid import Grid
from kernelwright.tuners.search import Found, Search

from ..conftest import FAST, Unguarded, torch_kernel

CALL_S = 2
SHORT = replace(FAST, checks=1, limits=Limits(compile_s=20, call_s=CALL_S, memory_gib=0.5, file_gib=2**-6))

# What a config does beside computing the right result; 'fine ...' does nothing.
TOP = '''
import os
import signal
import sys
import time
from pathlib import Path

FAULT = "fine"
calls = 0


def is_timed():
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != "sample":
        frame = frame.f_back
    return frame is not None


def fill(part=1 << 18):
    """Files below the limit of each, until there is no room; the error is the caller's."""
    number = 0
    while True:
        with open(f"part-{number}", "wb", buffering=0) as file:
            if file.write(bytes(part)) != part:
                raise OSError(28, os.strerror(28))
        number += 1


def fault():
    global calls
    calls += 1
    if FAULT == "segfault":
        import ctypes
        ctypes.string_at(0)
    elif FAULT == "aborts":
        os.abort()
    elif FAULT == "leaves":
        os._exit(3)
    elif FAULT == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif FAULT == "eats memory":
        kept = [torch.ones(1 << 22) for _ in range(1000)]
    elif FAULT == "one large file":
        Path("large").write_bytes(bytes(1 << 25))
    elif FAULT == "raises no text":
        raise ValueError("\\udcff" * 9)
    elif FAULT == "endless" and calls > 1:
        while True:
            pass
    elif FAULT == "endless when timed" and is_timed():
        while True:
            pass
    elif FAULT == "waits" and calls == 1:
        Path("waiting").touch()
        time.sleep(1.0)
    elif FAULT == "fills the disk":
        fill()
    elif FAULT == "fills the disk when timed" and is_timed():
        fill_in_silence()


def fill_in_silence():
    try:
        fill(part=512)
    except OSError:
        pass


if FAULT == "leaves no room":
    fill_in_silence()
'''
BODY = "float(x[0, 0]); fault(); return x * (float('inf') if FAULT == 'infinite' else self.weight)"
"""It reads a value, so that there is no plan, and faults may wait for the clock."""
KERNEL = torch_kernel(BODY, TOP)

FAULTS: dict[str, tuple[Status, str]] = {
    "segfault": (Status.CRASHED, r"killed by SIGSEGV"),
    "aborts": (Status.CRASHED, r"killed by SIGABRT"),
    "leaves": (Status.CRASHED, r"exited with code 3"),
    "killed": (Status.CRASHED, r"killed by SIGKILL"),
    "eats memory": (Status.RUNTIME_ERROR, r"memory"),
    "one large file": (Status.RUNTIME_ERROR, r"File too large"),
    "raises no text": (Status.RUNTIME_ERROR, r"^ValueError: (\\udcff){9}$"),
    "infinite": (Status.WRONG_VALUE, r"differ"),
    "endless": (Status.TIMEOUT, rf"did not finish within {CALL_S} s \(compiling or running\)"),
    "endless when timed": (Status.TIMEOUT, rf"did not finish within {CALL_S} s \(being timed\)"),
}


def interleaved(faults: Sequence[str]) -> list[str]:
    """Each between two healthy configs, which differ only in their names."""
    names = ["fine 0"]
    for number, fault in enumerate(faults, start=1):
        names += [fault, f"fine {number}"]
    return names


def search(evaluator: LocalEvaluator, problem: Problem, path: Path, names: Sequence[str], emit: Emit = ignore) -> Found:
    """A search through all of these, in order, as the command line runs it."""
    space = SearchSpace.of({"FAULT": list(names)})
    with Journal(path) as journal:
        return Search(problem, KERNEL, space, Grid(space), evaluator, journal, Budget(), emit).run()


def searched(path: Path) -> dict[str, Evaluation]:
    """The journal's trials by fault: exactly one of each."""
    trials = [trial for trial in of(read_journal(path), Trial) if trial.origin == "search"]
    counted = Counter(str(trial.evaluation.config["FAULT"]) for trial in trials)
    assert set(counted.values()) <= {1}, counted
    return {str(trial.evaluation.config["FAULT"]): trial.evaluation for trial in trials}


def require_fine(found: dict[str, Evaluation], names: Sequence[str]) -> None:
    assert list(found) == list(names)
    for name in names:
        if name.startswith("fine"):
            assert found[name].status is Status.OK, f"{name}: {found[name].message}"
            assert found[name].measurement is not None


@pytest.fixture(scope="module")
def short() -> Iterator[LocalEvaluator]:
    with Unguarded(settings=SHORT) as shared:
        yield shared


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def test_each_fault_is_one_trial_between_healthy_ones(
    short: LocalEvaluator, scale_problem: Problem, path: Path
) -> None:
    names = interleaved(list(FAULTS))
    search(short, scale_problem, path, names)
    found = searched(path)
    require_fine(found, names)
    for name, (status, says) in FAULTS.items():
        assert found[name].status is status, f"{name}: {found[name].message}"
        assert re.search(says, found[name].message.splitlines()[0]), f"{name}: {found[name].message}"
        found[name].message.encode()  # it can be printed
    written = path.read_bytes()
    search(short, scale_problem, path, names)
    assert path.read_bytes() == written, "a resumed search measures nothing twice"


def processes(evaluator: LocalEvaluator, problem: Problem) -> dict[str, tuple[int, ...]]:
    """Who takes part in the evaluation that is under way."""
    assert evaluator._runner.client is not None
    return {
        "worker": (evaluator._runner.client.worker.pid,),
        "judge": (evaluator.processes.reference_client(problem).pid,),
        "servers": evaluator.processes.server_pids,
    }


@contextlib.contextmanager
def killer(evaluator: LocalEvaluator, problem: Problem, victim: str) -> Iterator[list[int]]:
    """Kills a process from outside while the config that waits is running; gives the pids that were killed."""
    killed: list[int] = []

    def run() -> None:
        deadline = time.monotonic() + 60
        while not list(evaluator.processes.folder.glob("work/*/waiting")):
            if time.monotonic() > deadline:
                return
            time.sleep(0.02)
        for pid in processes(evaluator, problem)[victim]:
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield killed
    finally:
        thread.join()


KILLED = ["fine 0", "waits", "fine 1"]


def test_a_worker_that_is_killed_from_outside_costs_one_trial(
    short: LocalEvaluator, scale_problem: Problem, path: Path
) -> None:
    with killer(short, scale_problem, "worker") as killed:
        search(short, scale_problem, path, KILLED)
    assert killed
    found = searched(path)
    require_fine(found, KILLED)
    assert found["waits"].status is Status.CRASHED
    assert found["waits"].message == "the process killed by SIGKILL (compiling or running)"


def test_a_reference_worker_that_is_killed_from_outside_costs_nothing(
    short: LocalEvaluator, scale_problem: Problem, path: Path
) -> None:
    with killer(short, scale_problem, "judge") as killed:
        search(short, scale_problem, path, KILLED)
    assert killed
    found = searched(path)
    require_fine(found, KILLED)
    assert found["waits"].status is Status.OK, found["waits"].message


def test_servers_that_are_killed_from_outside_cost_nothing(
    short: LocalEvaluator, scale_problem: Problem, path: Path
) -> None:
    with killer(short, scale_problem, "servers") as killed:
        search(short, scale_problem, path, KILLED)
    assert killed
    found = searched(path)
    require_fine(found, KILLED)
    assert found["waits"].status is Status.OK, found["waits"].message


def test_a_kernel_that_fills_the_disk_leaves_room_for_the_next(
    scale_problem: Problem, path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(small_disk))
    # The second of them has a process of its own: in one that has files already, they could be overwritten.
    names = ["fine 0", "fills the disk", "leaves no room", "fine 1", "fills the disk when timed", "fine 2"]
    with Unguarded(settings=SHORT) as crowded:
        assert crowded.processes.folder.is_relative_to(small_disk)
        search(crowded, scale_problem, path, names)
    found = searched(path)
    require_fine(found, names)
    statuses = {name: found[name].status for name in names}
    assert statuses["fills the disk"] is Status.RUNTIME_ERROR
    assert "No space left on device" in found["fills the disk"].message
    # It was the reference that failed then, for want of room.
    assert statuses["leaves no room"] is Status.RUNTIME_ERROR
    assert found["leaves no room"].message.startswith("beside this kernel, and not without it, the reference")
    assert statuses["fills the disk when timed"] is Status.OK, found["fills the disk when timed"].message


class DiskFills:
    """After the second trial no file of this process can grow by a whole one more: Linux refuses the write half-way."""

    def __init__(self, journal: Path) -> None:
        self._journal = journal

    def __call__(self, event: Event) -> None:
        if (
            not isinstance(event, TrialDone) or event.number < 2
        ):  # before, the journal is shorter than the kernel's file
            return
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self._journal.stat().st_size + 100, most))


def test_a_journal_on_a_full_disk_keeps_what_it_has(short: LocalEvaluator, scale_problem: Problem, path: Path) -> None:
    names = interleaved(["leaves"])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.raises(ResultsError, match=r"cannot write .*make room.*resume"):
            search(short, scale_problem, path, names, DiskFills(path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    begun = searched(path)
    assert list(begun) == names[:2]
    search(short, scale_problem, path, names)
    found = searched(path)
    require_fine(found, names)
    assert found["leaves"].status is Status.CRASHED
    assert {name: found[name] for name in begun} == begun
