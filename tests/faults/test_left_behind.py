"""What killed commands leave is removed by the next one, and a server that does not answer is noticed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernelwright.core import DeviceError
from kernelwright.core.file_locks import OWNER, OwnFolder, is_abandoned
from kernelwright.evaluators.workers import server_client
from kernelwright.evaluators.workers.removal import sweep
from kernelwright.evaluators.workers.server_client import ForkServer
from kernelwright.mcp_server.places import ENDED, RUNNING, Root, Runs

EVALUATING = """
import time
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.runtime.interruption import interruptible
with interruptible(), LocalEvaluator("cpu") as evaluator:
    evaluator.processes.start()
    print(evaluator.processes.folder, flush=True)
    time.sleep(60)
"""
RUN = """
import sys, time
from pathlib import Path
from kernelwright.mcp_server.places import Root, Runs
runs = Runs(Root(Path(sys.argv[1])), Path("runs"))
print(runs.begin("optimize", "a.py").id, flush=True)
time.sleep(60)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder of its own."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    sweep.cache_clear()
    yield tmp_path
    sweep.cache_clear()


def started(program: str, *arguments: str) -> tuple[subprocess.Popen[str], str]:
    """A Python process, and the first line that it prints."""
    process = subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def ended(process: subprocess.Popen[str], number: signal.Signals) -> None:
    process.send_signal(number)
    process.wait(30)


def test_a_killed_commands_folders_are_removed_by_the_next_one(place: Path) -> None:
    process, folder = started(EVALUATING)
    assert Path(folder).parent == place.resolve()
    living = OwnFolder("kernelwright-")
    foreign = place / "kernelwright-by-another-program"
    foreign.mkdir()
    sweep(place)
    assert Path(folder).exists(), "its process lives"
    ended(process, signal.SIGKILL)
    assert Path(folder).exists()
    sweep.cache_clear()
    sweep(place)
    assert not Path(folder).exists()
    assert living.path.exists() and foreign.exists()
    living.close()


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_a_command_that_is_told_to_end_leaves_nothing(place: Path, number: signal.Signals) -> None:
    process, folder = started(EVALUATING)
    ended(process, number)
    assert not Path(folder).exists()


def test_a_link_in_the_place_of_a_lock_is_none(place: Path) -> None:
    (place / "lock").touch()
    (place / OWNER).symlink_to(place / "lock")
    assert is_abandoned(place / "lock")
    assert not is_abandoned(place / OWNER)


def test_what_another_user_locked_is_left_alone(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "lock").touch()
    monkeypatch.setattr(os, "geteuid", lambda: (place / "lock").stat().st_uid + 1)
    assert not is_abandoned(place / "lock")


def test_a_server_that_was_stopped_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    server = ForkServer([], {})
    os.kill(server.pid, signal.SIGSTOP)
    monkeypatch.setattr(server_client, "IMPORT_S", 0.3)
    began = time.monotonic()
    with pytest.raises(DeviceError, match=r"did not answer within 0.3 s \(to import a library\)"):
        server.load("json")
    assert time.monotonic() - began < 5
    assert not server.alive
    server.close()


def test_a_run_whose_server_was_killed_is_over(tmp_path: Path) -> None:
    process, run = started(RUN, str(tmp_path))
    runs = Runs(Root(tmp_path), Path("runs"))
    assert runs.find(run).record.state == RUNNING
    ended(process, signal.SIGKILL)
    assert runs.find(run).record.state == ENDED
    assert runs.find(runs.begin("optimize", "b.py").id).record.state == RUNNING
    assert len(list((tmp_path / "runs").glob(".server-*"))) == 1
