"""A server, and its workers, live as long as this process wants them, whichever thread started them."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import kernelwright
import pytest
from kernelwright.core import (
    Config,
    DeviceError,
    Evaluation,
    Kernel,
    Problem,
    PythonKernel,
    Status,
    TorchProblem,
)
from kernelwright.evaluators.languages.tilelang import TileLangSupport
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.pipeline.processes import Processes
from kernelwright.evaluators.pipeline.servers import languages_of, server_environment
from kernelwright.evaluators.sandbox.containment import Containment
from kernelwright.evaluators.settings import Sandbox
from kernelwright.evaluators.workers.client import Worker
from kernelwright.evaluators.workers.server_client import ForkServer, start_server

from ...conftest import FAST
from ...surroundings import WARM_SERVER

Result = TypeVar("Result")

GRACE_S = 1.0
"""How long a server that is to die with a thread would be given to do so."""


def in_a_thread(task: Callable[[], Result]) -> Result:
    """What `task` returns, from a thread that is gone from Linux as well when it has."""
    found: list[Result] = []
    ids: list[int] = []

    def run() -> None:
        ids.append(threading.get_native_id())
        found.append(task())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    deadline = time.monotonic() + 10
    while Path(f"/proc/self/task/{ids[0]}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found[0]


def test_a_server_outlives_the_thread_that_started_it(scale_problem: Problem, scale_kernel: Kernel) -> None:
    with LocalEvaluator(settings=FAST) as fresh:

        def lane() -> tuple[Evaluation, int, int]:
            (found,) = fresh.evaluate(scale_problem, scale_kernel, [Config({"BLOCK": 8})])
            return found, fresh.processes.server.pid, fresh.processes.reference_client(scale_problem).pid

        first, server, reference_client = in_a_thread(lane)
        time.sleep(GRACE_S)
        assert fresh.processes.server.alive
        for _ in range(2):
            found, *pids = in_a_thread(lane)
            assert (found.status, pids) == (Status.OK, [server, reference_client]), found.message
        (found,) = fresh.evaluate(scale_problem, scale_kernel, [Config()])
        assert (first.status, found.status) == (Status.OK, Status.OK)
        assert fresh.processes.server.pid == server
    assert not Path(f"/proc/{server}").exists()


def test_a_server_leaves_byte_code_of_what_it_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some installers leave none: then every command would compile torch again, which takes seconds."""
    monkeypatch.delenv(WARM_SERVER)
    (tmp_path / "left_without.py").write_text("HERE = True\n")
    path = f"{Path(kernelwright.__path__[0]).parent}:{tmp_path}"
    environment = {**server_environment("cpu"), "PATH": os.environ["PATH"], "PYTHONPATH": path}
    ours, theirs = socket.socketpair()
    with ours, theirs, tempfile.TemporaryFile() as errors:
        fd = str(theirs.fileno())
        process = start_server((), [fd, "left_without"], environment, theirs, errors)
        theirs.close()
        ready = json.loads(socket.recv_fds(ours, 4096, 1)[0])
    assert process.wait(10) == 0
    assert ready == {"ready": True}
    assert list((tmp_path / "__pycache__").glob("left_without.*.pyc"))


FORK = """
import os, socket, sys
from kernelwright.evaluators.workers import confinement, fork_server
confinement.enter = lambda *_, **__: os._exit(7 if sys.dont_write_bytecode else 8)
pid = fork_server._fork(socket.socket(), {"folder": "."}, 0, 0)
print(sys.dont_write_bytecode, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_a_worker_leaves_none() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    run = subprocess.run([sys.executable, "-c", FORK], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "7"]


def test_servers_that_died_are_replaced_with_all_their_workers(scale_problem: Problem, scale_kernel: Kernel) -> None:
    config = Config({"BLOCK": 8})
    with LocalEvaluator(settings=FAST) as fresh:
        (before,) = fresh.evaluate(scale_problem, scale_kernel, [config])
        servers, reference_client = fresh.processes.server_pids, fresh.processes.reference_client(scale_problem)
        evaluations = fresh.evaluate(scale_problem, scale_kernel, [config] * 2)
        assert next(evaluations).status is Status.OK
        assert fresh._runner.client is not None
        worker = fresh._runner.client.worker
        _kill(servers, lambda: worker.alive or reference_client.alive)
        with pytest.raises(DeviceError, match="run again with `resume`"):
            reference_client.call("properties")
        # Between two configs of one call, and from call to call.
        assert next(evaluations).status is Status.OK
        replaced = fresh.processes.server_pids
        assert not set(replaced) & set(servers)
        reference_client = fresh.processes.reference_client(scale_problem)
        _kill(replaced, lambda: reference_client.alive)
        (after,) = fresh.evaluate(scale_problem, scale_kernel, [config])
        assert (before.status, after.status) == (Status.OK, Status.OK)
        assert not set(fresh.processes.server_pids) & set(replaced)


def test_a_reference_is_started_again_where_only_the_server_of_kernels_died(
    scale_problem: TorchProblem, scale_kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Containment, "shares_memory", False)  # so there are two servers
    monkeypatch.setattr(TileLangSupport, "imports_quickly", True)  # as Triton is
    with LocalEvaluator(settings=FAST) as fresh:
        before = fresh._runner.reference_for(scale_problem, scale_kernel)
        servers = fresh.processes.servers.running
        assert servers.trusted is not servers.untrusted
        _kill((servers.untrusted.pid,), lambda: servers.untrusted.alive)
        assert before.alive and fresh._runner.reference_for(scale_problem, scale_kernel).alive
        assert not before.alive


@pytest.mark.parametrize("quickly", [False, True])
def test_a_language_that_imports_slowly_is_there_before_its_reference_is_forked(
    scale_problem: TorchProblem, scale_kernel: Kernel, monkeypatch: pytest.MonkeyPatch, quickly: bool
) -> None:
    """The reference replays launches with it, and would import it again."""
    knew: list[bool] = []
    fork = ForkServer.fork

    def noted(server: ForkServer, role: str, *args: Any, **options: Any) -> Worker:
        if role == "reference.worker":
            knew.append(server.knows("tilelang"))
        return fork(server, role, *args, **options)

    monkeypatch.setattr(ForkServer, "fork", noted)
    monkeypatch.setattr(TileLangSupport, "imports_quickly", quickly)
    with LocalEvaluator(settings=FAST) as fresh:
        fresh._runner.reference_for(scale_problem, scale_kernel)
    assert knew == [not quickly]


def _kill(pids: tuple[int, ...], alive: Callable[[], bool]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while alive():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_worker_of_a_server_that_replaced_another_has_the_languages_before_it_watches(
    scale_problem: TorchProblem, scale_kernel: PythonKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TileLang replaces `sys.excepthook`: imported by the kernel, that would be its fault."""
    monkeypatch.delenv(WARM_SERVER)  # cold servers, which have imported only what they were told to
    processes = Processes("cpu", FAST.limits)
    try:
        processes.servers.load(languages_of(scale_kernel), scale_kernel.language)
        before = processes.server
        _kill(processes.server_pids, lambda: before.alive)
        worker = processes.candidate(scale_problem)()
        assert processes.server is not before and not processes.server.knows("tilelang")
        source = worker.inbox / "kernel.py"
        source.write_text(scale_kernel.source)
        loaded = worker.call(60, op="load", source=str(source), serial=1, keep=False)
        assert loaded == {"ok": True, "violations": []}
    finally:
        processes.close()


def test_a_module_that_is_loaded_later_is_there_for_all_workers(tmp_path: Path) -> None:
    (tmp_path / "later.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'a').write('once ')")
    server = ForkServer(["json"], {"PYTHONPATH": str(tmp_path)})
    try:
        for _ in range(2):
            server.load("later")
    finally:
        server.close()
    assert (tmp_path / "imported").read_text() == "once "


def test_what_fails_for_all_workers_is_left_to_each(tmp_path: Path) -> None:
    (tmp_path / "toy_support.py").write_text("raise RuntimeError('never loads')")
    server = ForkServer(["json"], {"PYTHONPATH": str(tmp_path)})
    try:
        server.load("math", "toy_support")
        assert server.alive and server.ready and server.knows("math")
    finally:
        server.close()


def test_a_server_that_was_closed_before_it_was_ready_is_not_ready(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text("import time\ntime.sleep(1000)")
    server = ForkServer(["endless"], {"PYTHONPATH": str(tmp_path)})
    server.close()
    assert not server.ready


def test_a_server_that_is_closed_while_it_starts_leaves_no_process(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    sandbox = ["sh", "-c", 'sleep 300 & echo $! > "$0.new"; mv "$0.new" "$0"; wait; exec "$@"', str(begun)]
    server = ForkServer([], {}, inside=sandbox)
    deadline = time.monotonic() + 20
    while not begun.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    child = Path("/proc", begun.read_text().strip(), "stat")
    server.close()
    while child.exists() and child.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_a_language_does_for_all_workers_is_done_in_the_server(tmp_path: Path) -> None:
    lines = (
        "class SUPPORT:",
        "    def preload():",
        f"        open({str(tmp_path / 'preloaded')!r}, 'a').write('once ')",
    )
    (tmp_path / "toy_support.py").write_text("\n".join(lines))
    server = ForkServer(["json"], {"PYTHONPATH": str(tmp_path)})
    try:
        with pytest.raises(DeviceError, match="cannot import toy: No module named 'toy'"):
            server.load("toy", "toy_support")
        assert not (tmp_path / "preloaded").exists()
        for _ in range(2):
            server.load("math", "toy_support")
    finally:
        server.close()
    assert (tmp_path / "preloaded").read_text() == "once "


def test_a_server_says_when_it_is_ready_without_a_wait(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        f"import os, time\nwhile not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.01)"
    )
    server = ForkServer(["slow"], {"PYTHONPATH": str(tmp_path)})
    try:
        assert not server.ready
        (tmp_path / "go").touch()
        deadline = time.monotonic() + 60
        while not server.ready:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        server.wait_ready()
        assert server.ready
    finally:
        server.close()


def test_a_request_that_was_interrupted_is_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer would be taken for that to the next."""
    server = ForkServer(["json"], {})
    try:
        server.load("math")
        receive = server._receive

        def interrupted(seconds: float) -> None:
            receive(seconds)
            raise KeyboardInterrupt

        monkeypatch.setattr(server, "_receive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            server.load("cmath")
        monkeypatch.undo()
        assert not server.alive
        with pytest.raises(DeviceError, match="`resume`"):
            server.load("cmath")
        assert server.end(1, 0.0).code is None
    finally:
        pid = server.pid
        server.close()
    assert not Path(f"/proc/{pid}").exists()


def test_files_of_the_working_folder_are_no_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel may be called like a library."""
    (tmp_path / "wave.py").write_text("raise ValueError('taken for a module')")
    monkeypatch.chdir(tmp_path)
    server = ForkServer(["wave"], {})
    try:
        server.load("wave")
    finally:
        server.close()


def test_shared_memory_of_a_worker_that_ended_is_removed(scale_problem: TorchProblem) -> None:
    with LocalEvaluator(settings=dataclasses.replace(FAST, sandbox=Sandbox.NONE)) as fresh:
        worker = fresh.processes.candidate(scale_problem)()
        left, others = (Path(f"/dev/shm/torch_{number}_1_1") for number in (worker.pid, os.getpid()))
        try:
            for path in (left, others):
                path.touch()
            worker.discard()
            assert not left.exists() and others.exists()
        finally:
            others.unlink()
