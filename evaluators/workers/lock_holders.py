"""The holders of a lock on a file, according to the kernel, since anybody may write to the file itself."""

from __future__ import annotations

import contextlib
import os
import pwd
from dataclasses import dataclass
from pathlib import Path

_LOCKS = Path("/proc/locks")


@dataclass(frozen=True)
class Holder:
    """A process with a lock."""

    pid: int
    uid: int
    stopped: bool
    """Whether it was suspended, by Ctrl-Z or SIGSTOP: it goes on with SIGCONT only."""

    @property
    def is_another_users(self) -> bool:
        """Whether this user may not end it; root may."""
        return self.uid != os.getuid()

    def __str__(self) -> str:
        name = str(self.uid)
        with contextlib.suppress(KeyError):
            name = pwd.getpwuid(self.uid).pw_name
        return f"process {self.pid} of {name}" + (", which is stopped," if self.stopped else "")


def holders_of(file: int) -> list[Holder]:
    """Return the processes that have locked an open file; empty where the kernel does not say, as across containers."""
    found = os.fstat(file)
    name = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    pids = set()
    with contextlib.suppress(OSError):
        for line in _LOCKS.read_text().splitlines():
            # 1: FLOCK  ADVISORY  WRITE 1234 fe:01:5678 0 EOF
            parts = line.split()
            if len(parts) > 5 and parts[1] == "FLOCK" and parts[5] == name:
                pids.add(int(parts[4]))
    holders = []
    for pid in sorted(pids):
        with contextlib.suppress(OSError):
            process = Path("/proc", str(pid))
            state = (process / "stat").read_text().rpartition(")")[2].split()[0]
            holders.append(Holder(pid, process.stat().st_uid, state in "Tt"))
    return holders
