"""The fork server: a process with the heavy libraries imported, which forks the workers.

It runs as `python -m kernelwright.evaluators.workers.fork_server FD MODULE...`. Requests come as JSON over the
socket FD, one at a time:

    {"op": "fork", "role": ..., "folder": ..., ...} with a channel and a log   -> {"pid": n}
    {"op": "end", "pid": n, "grace_s": s}                                      -> {"status": s, "grown": bytes}
    {"op": "import", "module": ..., "support": ...}                            -> {"error": why not, or null}

Both ends may be in different PID namespaces. `n` is the pid in the server's; with it, and with the first message,
comes a pidfd, by which the other end finds the pid in its own namespace.

The server itself never computes: a thread pool used before a fork would hang after it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import resource
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from ...core import known_languages
from . import confinement
from .channel import Channel

ROLES = ("reference.worker", "candidate.worker", "replay.worker", "compilation.worker")
"""Modules of `evaluators` whose `serve` a worker runs."""
REQUEST_BYTES = 1 << 20
NICE = "KERNELWRIGHT_SERVER_NICE"
"""The variable with a lower priority of a server and its workers."""
POLL_S = 0.001
KILL_S = 10.0
"""Seconds to wait for a killed process: one inside a driver call may never end."""
SWEEPS = 100
"""Generations of orphans that are killed; endless forking must not stop the server from responding."""


def main(fd: int, modules: list[str]) -> None:
    """Import the modules, report ready, then serve until the other end closes."""
    confinement.die_with_parent()
    confinement.adopt_orphans()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(int(os.environ.pop(NICE, "0")))
    server = socket.socket(fileno=fd)
    for name in modules:
        _import(name)
    known_languages()  # plug-ins too: workers may not be able to read them
    for role in ROLES:  # else each worker would compile them again
        importlib.import_module(f"..{role}", __package__)
    # Else the first full collection of each worker writes to, and so copies, all that the libraries made.
    gc.freeze()
    _answer(server, {"ready": True}, os.getpid())
    live: set[int] = set()
    while True:
        data, fds, _, _ = socket.recv_fds(server, REQUEST_BYTES, 2)
        if not data:
            break
        request = json.loads(data)
        if request["op"] == "fork":
            pid = _fork(server, request, *fds)
            live.add(pid)
            for descriptor in fds:
                os.close(descriptor)
            _answer(server, {"pid": pid}, pid)
        elif request["op"] == "import":
            error = _import(request["module"])
            if error is None and request["support"] is not None:
                with contextlib.suppress(Exception):  # each worker does it again
                    importlib.import_module(request["support"]).SUPPORT.preload()
            gc.freeze()
            _answer(server, {"error": error})
        else:
            status, most = _end(request["pid"], request["grace_s"])
            live.discard(request["pid"])
            _remove_shared_memory(request["pid"])
            _sweep(live)
            own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # a fork begins with as much
            _answer(server, {"status": status, "grown": max(0, most - own) * 1024})
    for pid in live:
        _end(pid, 0.0)
    _sweep(set())


def _import(name: str) -> str | None:
    """Import a module; return why it cannot be."""
    try:
        importlib.import_module(name)
    except Exception as error:  # a broken library must not end the server
        return str(error) or type(error).__name__
    return None


def _answer(server: socket.socket, answer: dict[str, Any], pid: int | None = None) -> None:
    data, process = json.dumps(answer).encode(), None
    with contextlib.suppress(OSError):  # an old kernel, or a worker that has ended
        process = None if pid is None else os.pidfd_open(pid)
    socket.send_fds(server, [data], [] if process is None else [process])
    if process is not None:
        os.close(process)


def _fork(server: socket.socket, request: dict[str, Any], channel: int, log: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        server.close()
        # The server's libraries got their byte code, which some installers leave out; what kernels import gets none.
        sys.dont_write_bytecode = True
        if request.get("visible") is not None:
            os.environ.update(request["visible"])
        confinement.die_with_parent()
        confinement.enter(
            Path(request["folder"]),
            log,
            request.get("memory_gib"),
            request.get("file_gib"),
            cache=Path(request["cache"]) if request.get("cache") else None,
            nice=request.get("nice", 0),
            rules=request.get("rules"),
        )
        role = importlib.import_module(f"..{request['role']}", __package__)
        role.serve(Channel(channel), request)
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _end(pid: int, grace_s: float) -> tuple[int | None, int]:
    """Wait up to `grace_s` for a worker to end by itself, then kill its group.

    Returns the exit code, negative for a signal, or None when it had to be killed; and its most memory in KiB.
    """
    code, most = _waited(pid, grace_s)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    if code is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)  # it died before it had its own group
        _, most = _waited(pid, KILL_S)
    return code, most


def _waited(pid: int, seconds: float) -> tuple[int | None, int]:
    """Return the exit code of a child that ends in time, and its most memory in KiB."""
    deadline = time.monotonic() + seconds
    while True:
        ended, status, used = os.wait4(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), used.ru_maxrss
        if time.monotonic() >= deadline:
            return None, 0
        time.sleep(POLL_S)


def _remove_shared_memory(pid: int) -> None:
    """Remove the files by which torch counted who uses a worker's memory on a GPU: it cannot have done so itself."""
    for path in Path("/dev/shm").glob(f"torch_{pid}_*"):
        with contextlib.suppress(OSError):
            path.unlink()


def _sweep(live: set[int]) -> None:
    """Kill and reap orphans that left their group: they are children of this process now."""
    # An orphan's children become this process's only after it has ended: one generation per round.
    for _ in range(SWEEPS):
        orphans = [pid for pid in _children() if pid not in live]
        if not orphans:
            break
        for pid in orphans:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in orphans:
            with contextlib.suppress(ChildProcessError):
                _waited(pid, KILL_S)


def _children() -> list[int]:
    found = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            found += [int(pid) for pid in (task / "children").read_text().split()]
    return found


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
    os._exit(0)  # an orderly exit takes half a second longer
