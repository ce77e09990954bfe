"""The process from which the tests' evaluation servers are forked: see `beside.start_warm`."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

REQUEST_BYTES = 1 << 17


@dataclass
class _Fork:
    pid: int
    client: socket.socket


def serve(folder: Path, owner: int, modules: list[str]) -> None:
    """Import the libraries once, then fork a server for everyone who asks, until the owner is gone."""
    from kernelwright.evaluators.workers import fork_server

    for module in (*modules, *(f"kernelwright.evaluators.{role}" for role in fork_server.ROLES)):
        importlib.import_module(module)
    gc.freeze()
    awake, wake = os.pipe()
    for end in (awake, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(str(folder / "new"))
    listening.listen(64)
    (folder / "new").rename(folder / "socket")
    forks: dict[int, _Fork] = {}  # by the number of the client's descriptor
    while Path(f"/proc/{owner}").exists():
        ready, _, _ = select.select([listening, awake, *forks], [], [], 1.0)
        if awake in ready:
            os.read(awake, 4096)
        for fork in [fork for number, fork in forks.items() if number in ready]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(fork.pid, signal.SIGKILL)  # its client is gone: a server does not outlive that
        for number, fork in list(forks.items()):
            pid, status = os.waitpid(fork.pid, os.WNOHANG)
            if pid:
                with contextlib.suppress(OSError):
                    fork.client.send(str(os.waitstatus_to_exitcode(status)).encode())
                fork.client.close()
                del forks[number]
        if listening in ready:
            client, _ = listening.accept()
            data, descriptors, _, _ = socket.recv_fds(client, REQUEST_BYTES, 2)
            if not data:
                client.close()
                continue
            pid = os.fork()
            if pid == 0:
                for other in (listening, client, *(fork.client for fork in forks.values())):
                    other.close()
                _become(json.loads(data), *descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            client.send(str(pid).encode())
            forks[client.fileno()] = _Fork(pid, client)
    shutil.rmtree(folder, ignore_errors=True)  # pytest does so itself, unless it was killed


def _become(request: dict[str, Any], channel: int, errors: int) -> NoReturn:
    """A server, as if it had been started with these modules and this environment."""
    try:
        from kernelwright.evaluators.workers import fork_server

        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        os.dup2(errors, 1)
        os.dup2(errors, 2)
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["cwd"])
        tempfile.tempdir = None
        fork_server.main(channel, request["modules"])
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
