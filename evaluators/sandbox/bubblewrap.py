"""bubblewrap: a server in namespaces of its own, which sees a read-only system without the user's files.

Options are those that version 0.4 knows. The server is the first process of its PID namespace: those in it cannot
signal it, and all end with it. CUDA cannot share memory with processes in other PID namespaces, nor, without a
network, over the abstract sockets that it uses for that: outputs leave through files.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from .places import Places

_NAMESPACES = (
    "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try",
    "--hostname", "kernelwright", "--as-pid-1", "--new-session", "--die-with-parent",
    # To root, bubblewrap leaves all capabilities.
    "--cap-drop", "ALL",
)  # fmt: skip
_PATIENCE_S = 30.0


def command(places: Places, devices: Sequence[Path], read: Sequence[Path], write: Sequence[Path]) -> list[str]:
    """What to put before a command that is to run inside; `devices` are the GPU's, `read` and `write` folders."""
    line = ["bwrap", *_NAMESPACES, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for device in devices:
        line += ["--dev-bind-try", str(device), str(device)]
    for path, shown in places.in_order():
        line += ["--ro-bind", str(path), str(path)] if shown else ["--tmpfs", str(path)]
    for folder in read:
        line += ["--ro-bind", str(folder), str(folder)]
    for folder in write:
        line += ["--bind", str(folder), str(folder)]
    for path, shown in places.in_order():
        line += [] if shown else ["--remount-ro", str(path)]
    return [*line, "--chdir", "/", "--"]


def obstacle(places: Places) -> str | None:
    """Why bubblewrap does not work here, and what to do; None when it does, which is tried."""
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed (apt install bubblewrap)"
    return _trial(tuple(command(places, (), (), ())))


@functools.cache
def _trial(line: tuple[str, ...]) -> str | None:
    """Start the interpreter that workers run in; whatever forbids it is not going to change meanwhile."""
    try:
        tried = subprocess.run(
            [*line, sys.executable, "-I", "-S", "-c", ""],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap cannot be started ({error})"
    if tried.returncode == 0:
        return None
    last = (tried.stderr.strip().splitlines() or [f"it exits with {tried.returncode}"])[-1]
    return f"bubblewrap does not work ({last}; does this system or container allow user namespaces?)"
