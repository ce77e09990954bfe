"""Evidence that the machine, and not the code under test, is why something failed.

A process that the system killed, a write that a full disk refused, a file that an inherited limit cut: each is shown by
what this process sees itself (counters, a write of its own, its own limits), never by what the code under test says.
"""

from __future__ import annotations

import contextlib
import errno
import resource
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path

ATTEMPTS = 3
"""Attempts at a step that fails for a reason other than the kernel."""
TRIED = f"tried {ATTEMPTS} times; `resume` measures it"
PROBE_BYTES = 1 << 20
NO_SPACE = ("No space left on device", "Disk quota exceeded", "Read-only file system")
TOO_LARGE = ("File too large", "File size limit exceeded")
NO_FILES = ("Too many open files",)
SHORTAGES = NO_SPACE + TOO_LARGE + NO_FILES
"""Messages of programs that could not write or open a file."""
FEW_FILES = 256
"""A limit of open files that leaves a process too few for its libraries and its compiler."""
_CGROUPS = Path("/sys/fs/cgroup")
_SHARE = 0.5
"""A process that took more of the free memory than this share may itself be why there was none left."""


@dataclass(frozen=True)
class MemoryState:
    """The system's memory figures."""

    kills: int
    """Processes that the system has killed because memory ran out, over all counters that can be read."""
    available: int
    """Bytes that are free, or that the control group leaves; 0 where that is not known."""


def memory_state() -> MemoryState:
    """Return the state now; it takes a fraction of a millisecond."""
    groups = _control_groups()
    kills = _number_in(Path("/proc/vmstat"), "oom_kill")
    available = _number_in(Path("/proc/meminfo"), "MemAvailable:") * 1024
    for group in groups:
        kills += _number_in(group / "memory.events", "oom_kill") + _number_in(group / "memory.oom_control", "oom_kill")
        for most, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            with contextlib.suppress(OSError, ValueError):
                left = int((group / most).read_text()) - int((group / used).read_text())
                available = max(0, min(available, left))
    return MemoryState(kills, available)


def killed_for_memory(code: int | None, before: MemoryState, after: MemoryState, grown: int) -> str | None:
    """Return the cause where the system killed a process for memory that others took; None where nothing shows that.

    `code` is its exit code, `grown` what it took at most, in bytes. A process that took half of what was free may be
    the cause itself.
    """
    if code != -signal.SIGKILL or after.kills <= before.kills:
        return None
    if not before.available or grown > _SHARE * before.available:
        return None
    return (
        f"the system ran out of memory and killed the process, which had taken {grown >> 20} MiB of "
        f"{before.available >> 20} MiB that were free"
    )


def lacked(text: str, folder: Path, file_gib: float) -> str | None:
    """Return what the machine lacked, where a failure's text says so and it can be shown; None otherwise.

    `folder` is on the disk that was written to, and what the code under test left there is gone. `file_gib` is the size
    of a file that it may write.
    """
    if any(said in text for said in NO_SPACE) and (refused := refuses_to_write(folder)) is not None:
        return f"cannot write to {folder}: {refused}; make room on that disk"
    if any(said in text for said in TOO_LARGE) and (most := _hard(resource.RLIMIT_FSIZE)) < file_gib * 2**30:
        return f"files are limited to {int(most) >> 10} KiB by `ulimit -f`; raise that limit"
    if any(said in text for said in NO_FILES) and (most := _hard(resource.RLIMIT_NOFILE)) < FEW_FILES:
        return f"a process may have {int(most)} open files by `ulimit -n`; raise that limit"
    return None


def refuses_to_write(folder: Path) -> str | None:
    """Return why a file of a megabyte cannot be written to a folder; None where it can."""
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            left = PROBE_BYTES
            while left:  # the write after one that was cut says why
                left -= file.write(bytes(left))
    except OSError as error:
        # A limit of this process does not mean that the disk is full.
        return None if error.errno in (errno.EFBIG, errno.EMFILE, errno.ENFILE) else str(error.strerror)
    return None


def within(kind: int, wanted: int) -> int:
    """Return a limit for a worker that this process may set: an inherited one may be lower."""
    return int(min(wanted, _hard(kind)))


def _hard(kind: int) -> float:
    most = resource.getrlimit(kind)[1]
    return float("inf") if most == resource.RLIM_INFINITY else most


def _control_groups() -> list[Path]:
    """Return the folders of this process's control groups that count memory, where they can be seen."""
    found = [_CGROUPS, _CGROUPS / "memory"]  # of a container these are its own
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, place = line.split(":", 2)
            if not controllers:
                found.append(_CGROUPS / place.strip("/"))
            elif "memory" in controllers.split(","):
                found.append(_CGROUPS / "memory" / place.strip("/"))
    return list(dict.fromkeys(found))


def _number_in(path: Path, name: str) -> int:
    """Return the number after a name in a file of lines; 0 where there is none."""
    with contextlib.suppress(OSError, ValueError):
        for line in path.read_text().splitlines():
            said, *numbers = line.split() or [""]
            if said == name and numbers:
                return int(numbers[0])
    return 0
