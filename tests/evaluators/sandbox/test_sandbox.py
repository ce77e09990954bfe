"""What untrusted code cannot do in each sandbox, tried by such code; and what it still can."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from kernelwright.core import Config, Kernel, Problem, PythonKernel, Status
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.pipeline.processes import Processes
from kernelwright.evaluators.sandbox import containment
from kernelwright.evaluators.settings import Sandbox

from ...conftest import FAST, SCALE_KERNEL
from .conftest import BWRAP, CHECKOUT, Compile, Untrusted

WRITE = """
    done = []
    for path in paths:
        try:
            with open(path, "a") as file:
                file.write("changed")
            done.append(path)
        except OSError:
            pass
    return done
"""
READ = WRITE.replace('"a"', '"rb"').replace('file.write("changed")', "file.read(1)")


def test_it_writes_nowhere_but_in_its_own_folder(
    untrusted: Untrusted, processes: Processes, home: Path, tmp_path: Path, scale_problem: Problem
) -> None:
    neighbour = processes.candidate(scale_problem)()
    victim, kernel = tmp_path / "victim", neighbour.inbox / "kernel_1.py"
    for path in (victim, kernel):
        path.write_text("as it was")
    problems = list((processes.folder / "problems").iterdir())
    folders = [home, Path.cwd(), Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"), tmp_path, CHECKOUT / "evaluators"]
    new = [folder / f"kernelwright-{os.getpid()}" for folder in folders]
    forbidden = [victim, kernel, *problems, *new]
    if processes.servers.containment.confines_workers:
        forbidden.append(neighbour.folder / "new")
    before = {path: path.read_bytes() for path in forbidden if path.exists()}
    allowed = ["own", "tmp/own", os.devnull]
    assert problems
    written = untrusted(WRITE, paths=[*map(str, forbidden), *allowed])
    assert written == allowed
    assert {path: path.read_bytes() for path in forbidden if path.exists()} == before
    neighbour.discard()


def test_it_reads_no_secrets(untrusted: Untrusted, processes: Processes, home: Path, scale_problem: Problem) -> None:
    reference_client = processes.reference_client(scale_problem)
    secrets = [str(path) for path in home.rglob("*") if path.is_file()]
    secrets.append(str(CHECKOUT / "pyproject.toml"))
    secrets += [
        f"/proc/{pid}/{name}" for pid in (os.getpid(), reference_client.pid) for name in ("environ", "cmdline", "mem")
    ]
    allowed = ["/etc/passwd", "/proc/self/status", os.__file__, containment.__file__]
    assert len(secrets) > 8 and all(os.access(path, os.R_OK) for path in secrets)
    assert untrusted(READ, paths=secrets + allowed) == allowed


def test_torch_compiles_references_in_it(processes: Processes, scale_problem: Problem) -> None:
    found = processes.reference_client(scale_problem).call("compile", name="compile", cache=None)
    assert found["error"] is None


def test_it_gets_no_keys(untrusted: Untrusted) -> None:
    seen = "str(dict(os.environ)) + open('/proc/self/environ').read()"
    assert untrusted(f"return ['PATH' in {seen}, 'not for kernels' in {seen}]") == [True, False]


CONNECT = """
    reached = []
    for family, kind, address in addresses:
        try:
            with socket.socket(getattr(socket, family), getattr(socket, kind)) as one:
                one.settimeout(2)
                one.connect(tuple(address) if isinstance(address, list) else address)
                one.send(b"anybody there?")
            reached.append(address)
        except OSError:
            pass
    return reached
"""


def test_it_has_no_network(untrusted: Untrusted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as service,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        udp.bind(("127.0.0.1", 0))
        service.bind("service")
        abstract.bind(f"\0kernelwright-{os.getpid()}")
        for listener in (service, abstract):
            listener.listen()
        addresses = [
            ("AF_INET", "SOCK_STREAM", list(tcp.getsockname())),
            ("AF_UNIX", "SOCK_STREAM", str(tmp_path / "service")),
            ("AF_UNIX", "SOCK_STREAM", abstract.getsockname().decode()),
        ]
        assert untrusted(CONNECT, addresses=addresses) == []
        untrusted(CONNECT, addresses=[("AF_INET", "SOCK_DGRAM", list(udp.getsockname()))])
        udp.settimeout(0.1)
        with pytest.raises(TimeoutError):
            udp.recv(1)


def test_it_signals_no_other_process(untrusted: Untrusted, processes: Processes, scale_problem: Problem) -> None:
    reference_client, server = processes.reference_client(scale_problem), processes.server
    body = """
        hit = []
        for pid, number in pids:
            try:
                os.kill(pid, number)
                hit.append(pid)
            except OSError:
                pass
        return hit
    """
    pids = [(reference_client.pid, 9), (server.pid, 9), (os.getpid(), 0), *((pid, 9) for pid in processes.server_pids)]
    assert untrusted(body, pids=pids) == []
    reference_client.call("properties")
    assert processes.server is server


def test_it_cannot_kill_the_server_that_started_it(
    untrusted: Untrusted, processes: Processes, scale_problem: Problem
) -> None:
    start = processes.candidate(scale_problem)
    untrusted("try: os.kill(os.getppid(), 9)\nexcept OSError: pass")
    time.sleep(0.1)
    worker = start()  # it raises when its server is gone
    assert worker.alive
    worker.discard()


def test_compilers_work_inside(compiled: Compile, processes: Processes) -> None:
    result = compiled(SCALE_KERNEL)
    assert result.ok, result.message
    assert list(processes.cache(PythonKernel.parse(SCALE_KERNEL)).rglob("kernel_lib.so"))


def test_a_daemon_ends_with_its_worker(processes: Processes, scale_problem: Problem) -> None:
    argument = f"1000.{os.getpid()}"
    source = f"import subprocess\nsubprocess.run(['sh', '-c', 'sleep {argument} &'])\n"
    with processes.compilers(scale_problem, processes.new_folder("cache"), 1) as pool:
        pool.submit(source).result(timeout=60)
        _wait_until(lambda: bool(_running(argument)))
    assert not _running(argument)


def test_a_worker_is_known_by_its_number_outside(processes: Processes, scale_problem: Problem) -> None:
    worker = processes.candidate(scale_problem)()
    assert _parent(worker.pid) in processes.server_pids
    worker.discard()
    assert not Path(f"/proc/{worker.pid}").exists()
    assert not worker.folder.exists() and not worker.inbox.exists()


def test_an_evaluation_is_the_same_in_all(
    evaluator: LocalEvaluator, scale_problem: Problem, scale_kernel: Kernel
) -> None:
    (found,) = evaluator.evaluate(scale_problem, scale_kernel, [Config()])
    assert found.status is Status.OK, found.message
    assert found.speedup is not None
    servers = 2 if evaluator.processes.sandbox_used == "bwrap" else 1
    assert len(evaluator.processes.server_pids) == servers
    assert evaluator.processes.sandbox_used == evaluator.settings.sandbox.value


@BWRAP
def test_a_server_that_was_killed_is_started_again(scale_problem: Problem) -> None:
    processes = Processes("cpu", FAST.limits, Sandbox.BWRAP)
    before = processes.server_pids
    worker, reference_client = processes.candidate(scale_problem)(), processes.reference_client(scale_problem)
    parent = _parent(worker.pid)
    os.kill(parent, signal.SIGKILL)
    _wait_until(lambda: not worker.alive)
    assert reference_client.alive
    again = processes.candidate(scale_problem)()
    assert again.alive and parent in before and _parent(again.pid) != parent
    after = processes.server_pids
    processes.close()
    assert not [pid for pid in (*before, *after, again.pid) if Path(f"/proc/{pid}").exists()]
    assert not processes.folder.exists()


def _wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _running(argument: str) -> list[Path]:
    return [path for path in Path("/proc").glob("[0-9]*/cmdline") if argument.encode() in _bytes(path)]


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize(
    "call",
    [
        "os.sched_setaffinity({}, {{0}})",
        "os.setpriority(os.PRIO_PROCESS, {}, 19)",
        "os.sched_setscheduler({}, os.SCHED_BATCH, os.sched_param(0))",
        "resource.prlimit({}, resource.RLIMIT_CORE, (0, 0))",
    ],
)
def test_it_schedules_itself_and_nobody_else(untrusted: Untrusted, call: str) -> None:
    """As root it could: the reference, and every program of the user, would share one core from then on."""
    body = f"""
    import resource
    {call.format("0")}
    try:
        {call.format("os.getppid()")}
    except PermissionError:
        return True
    """
    assert untrusted(body)


@pytest.mark.parametrize(
    "call",
    [
        "os.setpriority(os.PRIO_USER, 0, os.getpriority(os.PRIO_PROCESS, 0))",
        "os.setpriority(os.PRIO_PGRP, 0, os.getpriority(os.PRIO_PROCESS, 0))",
        "ioprio_set(2, 0)",
        "ioprio_set(3, 0)",
    ],
)
def test_its_user_and_its_group_are_not_itself(untrusted: Untrusted, call: str) -> None:
    """What runs for the same user is everything of that user: 0 names it without a number."""
    body = f"""
    import ctypes, errno, platform
    libc = ctypes.CDLL(None, use_errno=True)

    def ioprio_set(which, who):
        if libc.syscall(251 if platform.machine() == "x86_64" else 30, which, who, 3 << 13) < 0:
            raise OSError(ctypes.get_errno(), "ioprio_set")

    ioprio_set(1, 0)
    try:
        {call}
    except PermissionError:
        return True
    """
    assert untrusted(body)
