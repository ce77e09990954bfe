"""Confines a freshly forked worker before it runs anything: limits, own folder, own group."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...core.language import cache_environment
from ..sandbox import landlock, privileges, seccomp
from .shortages import within

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, so that a daemon cannot outlive its evaluation."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def enter(
    folder: Path,
    log: int,
    memory_gib: float | None,
    file_gib: float | None,
    cache: Path | None = None,
    nice: int = 0,
    rules: Mapping[str, Any] | None = None,
) -> None:
    """Set process group, working and temporary folder, output to the file `log`, limits and priority.

    Compiled kernels go to `cache`, which workers may share, by default a folder of this worker's own. `rules` are
    further restrictions (`sandbox.containment.Containment.rules`); with them, home is `folder` too.
    """
    os.setsid()
    os.nice(nice)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    kernels = cache or folder / "cache"
    compilers = {
        **cache_environment(kernels),
        "TORCHINDUCTOR_CACHE_DIR": str(kernels / "inductor"),
        "CUDA_CACHE_PATH": str(kernels / "cuda"),
    }
    for path in (folder / "tmp", folder / "cache", *map(Path, compilers.values())):
        path.mkdir(parents=True, exist_ok=True)
    os.environ.update(compilers)
    os.environ.update(TMPDIR=str(folder / "tmp"), XDG_CACHE_HOME=str(folder / "cache"))
    # tempfile remembers the folder from before the fork.
    import tempfile

    tempfile.tempdir = None
    os.chdir(folder)
    _redirect(log)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_gib is not None:
        limit = within(resource.RLIMIT_DATA, _private_bytes() + int(memory_gib * 2**30))
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    if file_gib is not None:
        limit = within(resource.RLIMIT_FSIZE, int(file_gib * 2**30))
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    if rules is not None:
        os.environ["HOME"] = str(folder)
        confine(rules)


def confine(rules: Mapping[str, Any]) -> None:
    """Give up, for good, what `Containment.rules` do not leave this process."""
    privileges.give_up()
    if rules["files"] is not None:
        landlock.restrict(**rules["files"])
    seccomp.restrict_calls(rules["cuda"], rules.get("streams", False))


def _redirect(sink: int) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    os.close(sink)
    os.close(nothing)


def _private_bytes() -> int:
    """Return the private writable memory of this process in bytes, which RLIMIT_DATA counts."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    return 0
