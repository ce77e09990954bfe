"""One candidate cannot end the command, nor fill the disk, nor hold up what comes after it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kernelwright.core import Config, DeviceError, Problem, PythonKernel, Status
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.settings import Limits
from kernelwright.evaluators.workers import server_client
from kernelwright.evaluators.workers.client import WorkerTimeoutError
from kernelwright.evaluators.workers.log import KEPT_BYTES, Log
from kernelwright.evaluators.workers.removal import remove_tree
from kernelwright.evaluators.workers.server_client import ForkServer

from ...conftest import FAST, Unguarded, torch_kernel

CALL_S = 3
SHORT = replace(FAST, checks=1, limits=Limits(compile_s=20, call_s=CALL_S, memory_gib=1.0, file_gib=0.25))
TOP = '''
import json
import os
import signal
import socket
import stat


def channel():
    """The socket to the process that judges."""
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                return socket.socket(fileno=os.dup(fd))
        except OSError:
            pass


def send(data):
    channel().sendall(len(data).to_bytes(4, "big") + data)


def deep():
    send(b'{"ok": ' + b"[" * 200_000 + b"]" * 200_000 + b"}")


def rather_deep():
    send(b'{"ok": ' + b"[" * 600 + b"]" * 600 + b"}")


def large():
    one = channel()
    one.sendall((1 << 30).to_bytes(4, "big"))
    while True:
        one.sendall(bytes(1 << 20))


def nested():
    for _ in range(1500):
        os.mkdir("f" * 200)
        os.chdir("f" * 200)
    os.chmod(".", 0)


def prints():
    for _ in range(1000):
        os.write(1, b"0123456789abcdef" * (1 << 16))


def stops():
    os.kill(os.getpid(), signal.SIGSTOP)


def fine():
    pass


done = []


def once(fault):
    if not done:
        done.append(fault)
        fault()
'''
BODY = "float(x[0, 0]); once({}); return x * self.weight"


@pytest.fixture(scope="module")
def short() -> Iterator[LocalEvaluator]:
    with Unguarded(settings=SHORT) as shared:
        yield shared


@pytest.mark.parametrize(
    ("fault", "status", "says"),
    [
        ("deep", Status.CRASHED, "the process"),
        ("rather_deep", Status.CRASHED, "the process"),
        ("large", Status.CRASHED, "the process"),
        ("stops", Status.TIMEOUT, "did not finish within"),
        ("nested", None, ""),
        ("prints", None, ""),
    ],
)
def test_what_a_kernel_does_is_its_own_fault(
    short: LocalEvaluator, scale_problem: Problem, fault: str, status: Status | None, says: str
) -> None:
    (found,) = short.evaluate(scale_problem, torch_kernel(BODY.format(fault), TOP), [Config()])
    assert status is None or found.status is status, found.message
    assert says in found.message and len(found.log) <= KEPT_BYTES
    (fine,) = short.evaluate(scale_problem, torch_kernel(BODY.format("fine"), TOP), [Config()])
    assert fine.status is Status.OK, fine.message
    folder = short.processes.folder
    short.processes.tidy()
    assert sum(path.lstat().st_size for path in folder.rglob("*")) < 64 << 20
    assert not list(folder.rglob("f" * 200))


def test_folders_of_a_worker_are_removed_however_deep_and_protected(
    short: LocalEvaluator, scale_problem: Problem
) -> None:
    worker = short.processes.candidate(scale_problem)()
    source = worker.inbox / "kernel.py"
    source.write_text(PythonKernel.parse(torch_kernel("pass", TOP).source).source + "\nnested()\n")
    worker.call(60, op="load", source=str(source), serial=1, keep=False)
    assert next(worker.folder.glob("f" * 200))
    worker.discard()
    assert not worker.folder.exists() and not worker.inbox.exists()


def test_a_folder_is_removed_with_links_and_without_what_they_lead_to(tmp_path: Path) -> None:
    kept, folder = tmp_path / "kept", tmp_path / "folder"
    (folder / "a" / "b").mkdir(parents=True)
    kept.mkdir()
    (kept / "file").touch()
    for where in (folder, folder / "a" / "b"):
        (where / "link").symlink_to(kept)
        (where / "file").touch()
        os.mkfifo(where / "pipe")
    (folder / "a" / "b").chmod(0)
    (folder / "a").chmod(0o500)
    remove_tree(folder)
    assert not folder.exists() and (kept / "file").exists()
    folder.symlink_to(kept)
    remove_tree(folder)
    assert (kept / "file").exists()
    remove_tree(tmp_path / "none")


def test_a_log_is_the_end_of_what_was_printed() -> None:
    log = Log()
    os.write(log.sink, b"first ")
    assert log.text == "first"
    for _ in range(100):
        os.write(log.sink, b"x" * 10_000)
    os.write(log.sink, b" last")
    log.given()
    assert log.text.endswith("x last") and len(log.text) == KEPT_BYTES
    assert log.text.endswith("x last"), "the pipe has ended"


def test_a_worker_that_takes_no_request_is_given_up(short: LocalEvaluator, scale_problem: Problem) -> None:
    worker = short.processes.candidate(scale_problem)()
    os.kill(worker.pid, signal.SIGSTOP)
    began = time.monotonic()
    with pytest.raises(WorkerTimeoutError):
        worker.call(1.0, op="load", source="x" * (4 << 20))
    assert time.monotonic() - began < 20 and not Path(f"/proc/{worker.pid}").exists()
    worker.discard()


def test_a_server_that_does_not_answer_is_replaced(scale_problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_client, "ANSWER_S", 1.0)
    with LocalEvaluator(settings=FAST) as fresh:
        start = fresh.processes.candidate(scale_problem)
        start().discard()
        server = fresh.processes.servers.running.untrusted
        os.kill(server.pid, signal.SIGSTOP)
        with pytest.raises(DeviceError, match=r"did not answer within .* s \(to start a process\); run again with"):
            start()
        assert not server.alive
        worker = fresh.processes.candidate(scale_problem)()
        assert worker.alive and fresh.processes.servers.running.untrusted is not server
        worker.discard()


def test_a_server_that_never_gets_ready_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "endless.py").write_text("import time\ntime.sleep(1000)")
    monkeypatch.setattr(server_client, "IMPORT_S", 0.5)
    server = ForkServer(["endless"], {"PYTHONPATH": str(tmp_path)})
    with pytest.raises(DeviceError, match=r"did not answer within 0.5 s"):
        server.wait_ready()
    assert not server.alive
    server.close()
