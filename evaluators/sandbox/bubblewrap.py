"""bubblewrap: runs a server in its own namespaces, with those files of the system that it needs, read-only.

Uses options that version 0.4 has. The server is the first process of its PID namespace: processes in it cannot
signal it, and all end with it. CUDA cannot share memory with processes in other PID namespaces, nor, without a
network, over the abstract sockets that it uses for that: outputs leave through files.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ...core.environment import allowed_environment
from .places import Places

_NAMESPACES = (
    "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try",
    "--hostname", "kernelwright", "--as-pid-1", "--new-session", "--die-with-parent",
    # bubblewrap leaves all capabilities to root.
    "--cap-drop", "ALL",
)  # fmt: skip
_TRIAL_TIMEOUT_S = 30.0


def command(
    places: Places, devices: Sequence[Path], read: Sequence[Path], write: Sequence[Path], working: Path = Path("/")
) -> list[str]:
    """Return the prefix of a command that runs inside, in the `working` folder; `devices` are the GPU's, `read` and
    `write` folders."""
    line = ["bwrap", *_NAMESPACES]
    for path, shown in places.in_order():
        line += ["--ro-bind", str(path), str(path)] if shown else ["--tmpfs", str(path)]
    line += ["--dev", "/dev", "--proc", "/proc", "--dir", "/tmp"]
    for device in devices:
        line += ["--dev-bind-try", str(device), str(device)]
    for folder in read:
        line += ["--ro-bind", str(folder), str(folder)]
    for folder in write:
        line += ["--bind", str(folder), str(folder)]
    for path, shown in places.in_order():
        line += [] if shown else ["--remount-ro", str(path)]
    line += ["--remount-ro", "/"]
    # Files in /dev/shm would be memory that no limit counts; on a GPU torch counts users of shared memory there.
    line += [] if devices else ["--remount-ro", "/dev"]
    return [*line, "--chdir", str(working), "--"]


def obstacle(places: Places) -> str | None:
    """Return why bubblewrap does not work here, and the fix; None when a trial run succeeds."""
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed (apt install bubblewrap)"
    return _trial(tuple(command(places, (), (), ())))


@functools.cache
def _trial(line: tuple[str, ...]) -> str | None:
    """Start the interpreter that workers run in; cached, since the obstacle does not change meanwhile."""
    try:
        tried = subprocess.run(
            [*line, sys.executable, "-I", "-S", "-c", ""],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TRIAL_TIMEOUT_S,
            env=allowed_environment(os.environ),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap cannot be started ({error})"
    if tried.returncode == 0:
        return None
    last = (tried.stderr.strip().splitlines() or [f"it exits with {tried.returncode}"])[-1]
    return f"bubblewrap does not work ({last}; does this system or container allow user namespaces?)"
