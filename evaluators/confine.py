"""What a freshly forked worker does to itself before it runs anything: limits, own folder, own group."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, so that a daemon cannot outlive its evaluation."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def enter(
    folder: Path, memory_gib: float | None, file_gib: float | None, cache: Path | None = None, nice: int = 0
) -> None:
    """Own process group, own working and temporary folder, output to `folder`/log, limits, priority.

    Compiled kernels go to `cache`, which workers may share, or by default to a folder of this worker's own.
    """
    os.setsid()
    os.nice(nice)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    kernels = cache or folder / "cache"
    compilers = {
        "TILELANG_CACHE_DIR": kernels / "tilelang",
        "TRITON_CACHE_DIR": kernels / "triton",
        "TORCHINDUCTOR_CACHE_DIR": kernels / "inductor",
    }
    for path in (folder / "tmp", folder / "cache", *compilers.values()):
        path.mkdir(parents=True, exist_ok=True)
    os.environ.update({name: str(path) for name, path in compilers.items()})
    os.environ.update(TMPDIR=str(folder / "tmp"), XDG_CACHE_HOME=str(folder / "cache"))
    # tempfile remembers the folder that it found before the fork.
    import tempfile

    tempfile.tempdir = None
    os.chdir(folder)
    _redirect(folder / "log")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_gib is not None:
        limit = _private_bytes() + int(memory_gib * 2**30)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    if file_gib is not None:
        limit = int(file_gib * 2**30)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


def _redirect(log: Path) -> None:
    sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    os.close(sink)
    os.close(nothing)


def _private_bytes() -> int:
    """The private writable memory of this process, which RLIMIT_DATA counts."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    return 0
