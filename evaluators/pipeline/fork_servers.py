"""The fork servers behind an evaluator: started when first needed, in the sandbox, with the languages imported."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from ...core import DeviceError, Language
from ...core.file_locks import OwnFolder
from ..devices import no_gpus
from ..languages.base import language_module
from ..sandbox.containment import Containment, contain, home_in
from ..settings import Sandbox
from ..workers.fork_server import NICE
from ..workers.memory import DeviceMemory
from ..workers.removal import PREFIX, sweep
from ..workers.server_client import ForkServer
from .servers import COMPILERS_IMPORT, server_environment, servers_import

COMPILER_NICE = 10
"""Lower priority of a compiler relative to measurements (`nice`)."""


class Folders:
    """The folders of an evaluator's processes, below a temporary one.

    It contains problems and inboxes, which a candidate's code may read; its work, where it writes; and the reference
    worker's files, hidden from it.
    """

    def __init__(self, memory: Path | None) -> None:
        """`memory` is a folder for the reference worker's compiled baselines."""
        sweep(Path(tempfile.gettempdir()))
        self.own = OwnFolder(PREFIX)
        self.root = self.own.path
        self.problems, self.inbox = self.root / "problems", self.root / "inbox"
        self.work, self.hidden = self.root / "work", self.root / "reference"
        for folder in (self.problems, self.inbox, self.work, self.hidden):
            folder.mkdir()
        self.helpers = memory / "helpers" if memory else self.hidden / "helpers"
        self._memory = memory

    def trusted_writes(self) -> tuple[Path, ...]:
        """Return the folders where only the reference worker writes: Landlock blocks the others there."""
        if self._memory is not None:
            with contextlib.suppress(OSError):
                self._memory.mkdir(parents=True, exist_ok=True)
        return (self.hidden, self.inbox, *([self._memory] if self._memory and self._memory.is_dir() else []))


class RunningServers(NamedTuple):
    """The servers that workers are forked from; the same one twice where each worker confines itself."""

    trusted: ForkServer
    untrusted: ForkServer


class ForkServers:
    """The reference worker is forked from one server; what runs a candidate's code (candidates, their launch plans,
    compilers) from another, or from the same one where each worker confines itself. Compilers for a GPU have a server
    of their own. May be used from several threads.
    """

    def __init__(self, device: str, folders: Folders, sandbox: Sandbox, ended: Callable[[], object]) -> None:
        """`ended` is called before servers end: what was forked from them ends with them."""
        self._device = device
        self._folders = folders
        self._sandbox = sandbox
        self._ended = ended
        self.device_memory = DeviceMemory()
        """Device memory of all workers together."""
        self.shown: tuple[Path, ...] = ()
        """Users' packages, which workers import."""
        self.languages: dict[str, Language] = {}
        """Languages that kernels needed so far, by the name of the imported module."""
        self._running: RunningServers | None = None
        self._compiling: ForkServer | None = None
        self._closed = False
        self._starting = threading.Lock()

    @cached_property
    def containment(self) -> Containment:
        """The containment of untrusted code; raises `DeviceError` when the requested one does not work here."""
        return contain(self._sandbox, self._device)

    @property
    def running(self) -> RunningServers:
        """The servers, started when first needed, and again when one of them has ended."""
        with self._starting:
            if self._running is not None and not all(server.alive for server in self._running):
                self._end()
            if self._running is None:
                folders, shared, imported = self._folders, self.containment.shares_memory, servers_import()
                writes = folders.trusted_writes()
                untrusted = self._contained(imported, (folders.work, *(writes if shared else ())))
                trusted = untrusted if shared else self._contained(imported, writes, (folders.work,))
                self._running = RunningServers(trusted, untrusted)
            return self._running

    @property
    def started(self) -> RunningServers | None:
        """The servers, if they were started."""
        return self._running

    @property
    def compiling(self) -> ForkServer:
        """The server that compilers are forked from: for a CPU that of candidates, for a GPU one of their own.

        It is started when first needed, and again when it has ended. It cannot see the GPU: what compilers need
        imported might open it, and no fork of a process that has opened it can use it. They pretend to have one.
        """
        if self._device == "cpu":
            return self.running.untrusted
        with self._starting:
            if self._compiling is not None and not self._compiling.alive:
                self._end_compiling()
            if self._compiling is None:
                modules = (*servers_import(), COMPILERS_IMPORT)
                variables = {**no_gpus(), NICE: str(COMPILER_NICE)}
                self._compiling = self._contained(modules, (self._folders.work,), variables=variables)
            return self._compiling

    @property
    def compilers_ready(self) -> bool:
        """Whether the server that a GPU's compilers are forked from has started."""
        server = self._compiling
        return server is not None and server.ready

    def expect(self, languages: Iterable[Language]) -> None:
        """Note languages that workers will need; servers import them while a new reference opens the device."""
        self.languages |= {language.modules[0]: language for language in languages}

    def load(self, languages: Iterable[Language], required: Language | None = None) -> None:
        """Import languages before workers are forked; raises `DeviceError` where the required one cannot be."""
        self.expect(languages)
        self.load_into(self.running.untrusted)
        compiling = self._compiling
        if compiling is not None and not all(map(compiling.knows, self.languages)):
            self.load_meanwhile(compiling)  # importing TileLang takes seconds
        if required is not None:
            self.running.untrusted.load(required.modules[0])

    def load_into(self, server: ForkServer) -> None:
        """Import the languages that were needed so far, as far as they are installed and the server lives."""
        for module, language in [*self.languages.items()]:
            with contextlib.suppress(DeviceError, OSError, ValueError):
                server.load(module, language_module(language) if self._device != "cpu" else None)

    def load_meanwhile(self, server: ForkServer) -> None:
        """Import the languages that were needed so far, in a background thread."""
        threading.Thread(target=self.load_into, args=(server,), daemon=True).start()

    def show(self, packages: Iterable[Path]) -> None:
        """Let workers import packages. Servers in namespaces of their own start again for it."""
        new = [path for path in packages if path not in self.shown]
        if not new:
            return
        self.shown += tuple(new)
        if self.containment.used is Sandbox.BWRAP:
            self._end()
            self._end_compiling()

    def close(self) -> None:
        """End all servers for good."""
        self._closed = True
        self._end()
        self._end_compiling()

    def _contained(
        self,
        modules: Sequence[str],
        writes: Sequence[Path],
        reads: Sequence[Path] = (),
        variables: Mapping[str, str] | None = None,
    ) -> ForkServer:
        """Start a server in the sandbox, whose workers write below `writes` and read the problems and `reads` too."""
        if self._closed:
            raise DeviceError("the evaluator is closed")
        folders = self._folders
        inside = self.containment.command((folders.problems, folders.inbox, *reads, *self.shown), writes)
        home = home_in(new_folder(writes[0], "home")) if inside else {}
        # Torch creates the last folder when torch._dynamo is imported, by default one that stays behind.
        own = {**server_environment(self._device), "TORCHINDUCTOR_CACHE_DIR": str(folders.root / "inductor")}
        return ForkServer(modules, {**own, **home, **(variables or {})}, inside, self.device_memory)

    def _end(self) -> None:
        self._ended()
        if self._running is not None:
            for server in set(self._running):
                server.close()
            self._running = None

    def _end_compiling(self) -> None:
        if self._compiling is not None:
            self._compiling.close()
            self._compiling = None


def new_folder(where: Path, name: str) -> Path:
    """Create a folder with an unpredictable name, in which no other process can have put files before.

    Raises `DeviceError` where something has cleaned the temporary folder: a sandbox shows the deleted one.
    """
    try:
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=where))
    except FileNotFoundError:
        hint = "run again with `resume`, where nothing deletes temporary files"
        raise DeviceError(f"the temporary folder {where.parent} was deleted during the run", hint) from None
