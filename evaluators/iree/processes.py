"""Where modules of others are compiled and run: forks of one server in the sandbox, each with its own folders.

A module may have its compiler read files (`.incbin` in inline assembly, `#hal.executable.object<{path = ...}>`), and
what runs contains machine code that its author wrote. Both therefore get the rules and limits of any other candidate.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

from ...core.file_locks import OwnFolder
from ..devices import CUDA
from ..sandbox.containment import contain, home_in
from ..settings import Limits, Sandbox
from ..workers.client import Worker
from ..workers.removal import PREFIX, remove_tree, sweep
from ..workers.server_client import ForkServer

_IMPORTED = ("numpy", "iree.runtime", f"{__package__}.worker", f"{__package__}.compile_worker")
"""Modules that the server imports for its workers, which need neither torch nor the compiler."""


class IreeProcesses:
    """Starts workers for one device in a temporary folder, which `close` removes; the next worker makes another.

    Under bubblewrap the server has its own namespaces; where the kernel has Landlock, each worker gives up all but its
    two folders, and a compiler also the GPU, which it does not need.
    """

    def __init__(self, device: str, limits: Limits, sandbox: Sandbox) -> None:
        """Raise `DeviceError` where the requested sandbox does not work here."""
        self._containment = contain(sandbox, device)
        self._limits = limits
        self._server: ForkServer | None = None
        self._folder: Path | None = None
        self._lock = Lock()

    @property
    def sandbox_used(self) -> str:
        """'bwrap', 'landlock' or 'none'."""
        return self._containment.used.value

    def compiler(self) -> Worker:
        """Start a worker that compiles one module: see `compile_worker`."""
        return self._fork("compile_worker", gpu=False)

    def runner(self, visible: str | None = None, **options: Any) -> Worker:
        """Start a worker that runs modules: see `worker`, which has the options; it sees the GPU of that number."""
        shown = None if visible is None else {CUDA.visible: visible}
        return self._fork("worker", gpu=True, visible=shown, **options)

    def _fork(self, role: str, gpu: bool, **options: Any) -> Worker:
        server, root = self._started()
        folder, inbox = (Path(tempfile.mkdtemp(prefix=f"{role}-", dir=root / name)) for name in ("work", "inbox"))
        containment = self._containment if gpu else replace(self._containment, cuda=False)
        limits = {"memory_gib": self._limits.memory_gib, "file_gib": self._limits.file_gib}
        rules = containment.rules([inbox], [folder])
        return server.fork(f"iree.{role}", folder, inbox, rules=rules, **limits, **options)

    def _started(self) -> tuple[ForkServer, Path]:
        """Return the server and its folder; it is started when first needed, and again when it has ended."""
        with self._lock:
            if self._server is not None and not self._server.alive:
                self._end()
            if self._server is None or self._folder is None:
                sweep(Path(tempfile.gettempdir()))
                self._own = OwnFolder(PREFIX)
                self._folder = self._own.path
                read, write = self._folder / "inbox", self._folder / "work"
                for item in (read, write):
                    item.mkdir()
                inside = self._containment.command([read], [write])
                home = Path(tempfile.mkdtemp(prefix="home-", dir=write))
                self._server = ForkServer(_IMPORTED, home_in(home) if inside else {}, inside)
            return self._server, self._folder

    def _end(self) -> None:
        if self._server is not None:
            self._server.close()
        if self._folder is not None:
            remove_tree(self._folder)
            self._own.close()
        self._server = self._folder = None

    def close(self) -> None:
        """End all workers."""
        with self._lock:
            self._end()
