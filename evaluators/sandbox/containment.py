"""Chooses a sandbox, and derives the rules for the server of untrusted code and for each of its workers."""

from __future__ import annotations

import functools
import logging
import site
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ...core import DeviceError
from ..devices import device_files
from ..settings import Sandbox
from . import bubblewrap, landlock, seccomp
from .places import Places

_LOG = logging.getLogger(__name__)
_READ_DEVICES = ("zero", "random", "urandom")
"""Not written: a mapping of /dev/zero for writing is shared memory that no limit counts."""
_DEVICES = ("null", "full", "tty")
_NO_LANDLOCK = "this kernel has no Landlock (Linux 5.13 and newer, unless it is switched off)"
_HINT = "use `sandbox` auto for what works here"


@dataclass(frozen=True)
class Containment:
    """How untrusted code is isolated: `used` is bwrap, landlock or none."""

    used: Sandbox
    places: Places
    cuda: bool
    """Whether the worker computes on a GPU."""
    confines_workers: bool
    """Whether Landlock isolates the workers from each other."""
    confines_signals: bool
    """Whether that isolation covers signals too."""

    @property
    def shares_memory(self) -> bool:
        """Whether one server forks trusted and untrusted workers, so that CUDA can share memory between them.

        CUDA does so within one PID namespace only. On a GPU trusted code therefore runs inside the sandbox, where
        Landlock protects it from the others; without Landlock it stays outside, and outputs go through files.
        """
        return self.used is not Sandbox.BWRAP or (self.cuda and self.confines_workers and self.confines_signals)

    def command(self, read: Sequence[Path], write: Sequence[Path], working: Path = Path("/")) -> list[str]:
        """Return the prefix of a command that runs in the `working` folder; empty unless it has its own namespaces."""
        if self.used is not Sandbox.BWRAP:
            return []
        return bubblewrap.command(self.places, device_files() if self.cuda else [], read, write, working)

    def rules(self, read: Sequence[Path], write: Sequence[Path]) -> dict[str, Any] | None:
        """Return the restrictions of one worker at its start, as JSON; None without a sandbox.

        `files` are the arguments of `landlock.restrict`, None where Landlock does not confine workers; `cuda` is that
        of `seccomp.restrict_calls`.
        """
        if self.used is Sandbox.NONE:
            return None
        if not self.confines_workers:
            return {"files": None, "cuda": self.cuda}
        devices = [Path("/dev", name) for name in _DEVICES] + (device_files() if self.cuda else [])
        given = [Path("/dev", name) for name in _READ_DEVICES]
        # CUDA writes the names of its threads, and torch counts the users of its shared memory in a file.
        shared = [Path("/proc/self"), Path("/dev/shm")] if self.cuda else []
        paths = {"read": [*self._readable, *given, *read], "write": [*write, *shared], "devices": devices}
        return {"files": {name: [str(path) for path in found] for name, found in paths.items()}, "cuda": self.cuda}

    @cached_property
    def _readable(self) -> list[Path]:
        return self.places.readable()


def contain(sandbox: Sandbox, device: str) -> Containment:
    """Return the requested containment for a device; raises `DeviceError` when it does not work here."""
    places, version = Places.of_this_process(), landlock.abi()
    used = _choose(sandbox, places, version)
    confined = used is not Sandbox.NONE
    return Containment(
        used, places, device.startswith("cuda"), confined and version > 0, version >= landlock.CONFINES_SIGNALS
    )


def _choose(sandbox: Sandbox, places: Places, version: int) -> Sandbox:
    if sandbox is Sandbox.NONE:
        return sandbox
    if (without := seccomp.obstacle()) is not None:
        if sandbox is not Sandbox.AUTO:
            raise DeviceError(f"`sandbox` {sandbox.value}: {without}; {_HINT}")
        _warn(f"kernels run without a sandbox, with all that your user may do: {without}")
        return Sandbox.NONE
    if sandbox is Sandbox.LANDLOCK:
        if not version:
            raise DeviceError(f"`sandbox` landlock: {_NO_LANDLOCK}; {_HINT}")
        return sandbox
    obstacle = bubblewrap.obstacle(places)
    if obstacle is None:
        return Sandbox.BWRAP
    if sandbox is Sandbox.BWRAP:
        raise DeviceError(f"`sandbox` bwrap: {obstacle}; {_HINT}")
    if not version:
        _warn(f"kernels run without a sandbox, with all that your user may do: {obstacle}, and {_NO_LANDLOCK}")
        return Sandbox.NONE
    if version < landlock.CONFINES_SIGNALS:
        _warn(f"Landlock of this kernel (version {version}) lets kernels signal your processes: {obstacle}")
    return Sandbox.LANDLOCK


def home_in(folder: Path) -> dict[str, str]:
    """Return variables that make a folder home and the place for temporary files, since libraries write there.

    The user's own packages are still found. Torch creates its cache folder when torch._dynamo is imported, and that
    import fails without it; in a process that has imported torch, the variable may name a folder outside.
    """
    inductor = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    return {"HOME": str(folder), "TMPDIR": str(folder), "PYTHONUSERBASE": site.getuserbase(), **inductor}


@functools.cache
def _warn(text: str) -> None:
    """Warn once, however many evaluators there are."""
    _LOG.warning(text)
