"""How tests hurry: none waits for the processor, or for others to leave it alone, servers start warm, and
launch plans are made only where they are what is tested (`with_launch_plans`).

As a script it is `python -m kernelwright`, so hurried; called with `JOB` alone the process of one of the server's jobs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any
from unittest import mock

KERNELWRIGHT = (sys.executable, "-P", __file__)
FOLDER = "KERNELWRIGHT_WARM_SERVER"
"""The variable that names the folder with the socket of the warm server; without it every server starts cold."""
OWNER = "KERNELWRIGHT_WARM_SERVER_OWNER"
"""The variable with the number of the process, pytest's, with which the warm server ends."""
MODULES = (
    "torch",
    "triton",
    "tilelang",
    "torch._dynamo",
    "kernelwright.evaluators.languages.triton",
    "kernelwright.evaluators.languages.tilelang",
)
JOB = "job-of-the-mcp-server"
START_S = 120.0
REPLY_BYTES = 32


def share_gpus() -> None:
    """Give each worker of a run one of several GPUs; before anything has looked which ones there are."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    gpus = len(list(Path("/dev").glob("nvidia[0-9]*")))
    if worker and gpus > 1:
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", str(int(worker) % gpus))


def measure_beside_others() -> None:
    """Let this process sample shortly and take no notice of what else measures here: its metrics are as good."""
    from kernelwright.core import Replay, Target
    from kernelwright.evaluators import settings
    from kernelwright.evaluators.languages.tilelang import TileLangSupport
    from kernelwright.evaluators.reference import roofline
    from kernelwright.evaluators.timing import quiet
    from kernelwright.evaluators.workers import device_lock

    shortly = {"seconds": 0.1, "min_samples": 5, "max_samples": 100, "patience_s": 0.0}
    defaults = [shortly.get(field.name, field.default) for field in dataclasses.fields(settings.Sampling)]
    settings.Sampling.__init__.__defaults__ = tuple(defaults)  # type: ignore[attr-defined]
    quiet.tolerated_cores = roofline.tolerated_cores = lambda: float("inf")
    quiet.STEADY = float("inf")
    TileLangSupport.records = (Target.CUDA,)  # compiling C takes as long as all else of an evaluation on a CPU
    Replay.counts = property(lambda replay: True)  # type: ignore[assignment, method-assign]
    # Each worker has a lock of its own for the processor, but all share a GPU's: what another runs there meanwhile
    # would look like work that a kernel hides.
    worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
    shared, lock = device_lock.FOLDER, device_lock.DeviceLock.__init__
    device_lock.FOLDER = shared.with_name(f"{shared.name}-{worker}")

    def lock_of(self: device_lock.DeviceLock, name: str, folder: Path | None = None) -> None:
        lock(self, name, folder or (None if name == "cpu" else shared))

    device_lock.DeviceLock.__init__ = lock_of  # type: ignore[method-assign]


@contextlib.contextmanager
def with_launch_plans() -> Iterator[None]:
    """Evaluate with launch plans, as without `measure_beside_others`."""
    from kernelwright.core import Replay, Target
    from kernelwright.evaluators.languages.tilelang import TileLangSupport

    def counts(replay: Replay) -> bool:
        return replay.replayed or replay.accepted

    with (
        mock.patch.object(TileLangSupport, "records", tuple(Target)),
        mock.patch.object(Replay, "counts", property(counts)),
    ):
        yield


class ForkedServer:
    """A server that was forked, as `subprocess.Popen` would show it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.pid = int(connection.recv(REPLY_BYTES))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("forked server", timeout or 0)
            self.returncode = int(self._connection.recv(REPLY_BYTES) or -signal.SIGKILL)
            self._connection.close()
        return self.returncode

    def kill(self) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


def start_warm() -> None:
    """Fork the servers of this process's evaluators from a process that has imported the libraries.

    Importing them takes seconds, and the tests start a server some hundred times. Whoever needs the first one starts
    that process; it serves all tests of a run and the commands that they call. What it could not stand for, servers in
    a sandbox of their own, for a GPU or with other modules, starts cold.
    """
    from kernelwright.evaluators.workers import client

    cold = client.start_server

    def start(
        inside: Sequence[str],
        arguments: Sequence[str],
        environment: Mapping[str, str],
        channel: socket.socket,
        errors: IO[bytes],
    ) -> Any:
        _, *modules = arguments
        serves = not inside and set(modules) <= set(MODULES) and environment.get("TRITON_INTERPRET") == "1"
        if FOLDER not in os.environ or not serves:
            return cold(inside, arguments, environment, channel, errors)
        connection = _connect(Path(os.environ[FOLDER]))
        request = {"modules": modules, "environment": dict(environment), "cwd": str(Path.cwd())}
        socket.send_fds(connection, [json.dumps(request).encode()], [channel.fileno(), errors.fileno()])
        return ForkedServer(connection)

    client.start_server = start


def example_vectors() -> Path:
    """The folder for the vectors of examples that all workers of a run share."""
    folder = Path(os.environ[FOLDER], "examples")
    folder.mkdir(exist_ok=True)
    return folder


def warm_up() -> None:
    """Start the process that servers are forked from as a child of this one, which outlives whoever needs it first."""
    _connect(Path(os.environ[FOLDER])).close()


def _connect(folder: Path) -> socket.socket:
    address = folder / "socket"
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not address.exists():
            _start(folder)
    connection.connect(str(address))
    return connection


def _start(folder: Path) -> None:
    from kernelwright.core.environment import allowed_environment
    from kernelwright.evaluators.pipeline.servers import ENVIRONMENT

    settings = {**ENVIRONMENT, "TRITON_INTERPRET": "1", "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [
                sys.executable,
                "-P",
                str(Path(__file__).with_name("warm_server.py")),
                str(folder),
                os.environ[OWNER],
                *MODULES,
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**allowed_environment(os.environ), **settings},
            start_new_session=True,
        )
    deadline = time.monotonic() + START_S
    while not (folder / "socket").exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"no server to fork from: {(folder / 'log').read_text()}")
        time.sleep(0.02)


def main() -> None:
    """The command line, or a job of its server."""
    measure_beside_others()
    start_warm()
    if sys.argv[1:] == [JOB]:
        from kernelwright.mcp_server.worker import main
    else:
        from kernelwright.cli.main import main

        if sys.argv[1:2] == ["mcp"]:
            from kernelwright.mcp_server import process

            process.COMMAND = (*KERNELWRIGHT, JOB)
    main()


if __name__ == "__main__":
    main()
