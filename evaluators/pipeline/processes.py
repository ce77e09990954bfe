"""The processes behind an evaluator: fork servers, the reference worker, workers for candidates and compilers."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from ...core import DeviceError, Kernel, Language, TorchProblem
from ..compilation.pool import CompilePool
from ..correctness.alternate_shapes import alternate_sizes
from ..languages.base import language_module
from ..languages.helpers import copy_helpers
from ..reference.arithmetic import defaults_differ
from ..reference.client import ReferenceClient
from ..sandbox.containment import Containment, contain, home_in
from ..settings import Limits, Precision, Sandbox
from ..workers.client import ForkServer, Worker
from ..workers.fork_server import NICE
from ..workers.memory import DeviceMemory
from ..workers.problem_file import problem_options
from ..workers.removal import remove_tree
from .references import References
from .servers import COMPILERS_IMPORT, server_environment, servers_import

COMPILER_NICE = 10
"""Lower priority of a compiler relative to measurements (`nice`)."""


class Processes:
    """Starts processes when they are needed, in a temporary folder that `close` removes.

    The reference worker is forked from one server in the sandbox; what runs a candidate's code (candidates, their
    launch plans, compilers) from another, or from the same one where each worker confines itself. Compilers for a GPU
    have a server of their own. The folder contains problems and inboxes, which a candidate's code may read; its work,
    where it writes; and the reference worker's files, hidden from it.
    """

    def __init__(
        self,
        device: str,
        limits: Limits,
        sandbox: Sandbox = Sandbox.AUTO,
        memory: Path | None = None,
        precision: Precision = Precision.FP32,
    ) -> None:
        """`memory` is a folder for the reference worker's compiled baselines, `precision` that of torch's fp32."""
        self.device = device
        self.device_memory = DeviceMemory()
        """That of all workers together."""
        self.folder = Path(tempfile.mkdtemp(prefix="kernelwright-")).resolve()
        self._read = (self.folder / "problems", self.folder / "inbox")
        self._work, self._hidden = self.folder / "work", self.folder / "reference"
        for folder in (*self._read, self._work, self._hidden):
            folder.mkdir()
        self._limits = limits
        self._sandbox = sandbox
        self._memory = memory
        self._helpers = memory / "helpers" if memory else self._hidden / "helpers"
        self._precision = precision
        self._languages: dict[str, Language] = {}  # that kernels needed so far, by the module that is imported
        self._servers: _Servers | None = None
        self._compiling: ForkServer | None = None
        self._retired: list[Worker] = []
        self._spare: tuple[tuple[str, ...], Worker] | None = None  # the languages that it imports, and the worker
        self._closed = False
        self._references = References(self.new_reference_client, self._problem)
        self._starting = threading.Lock()

    @cached_property
    def containment(self) -> Containment:
        """The containment of untrusted code; raises `DeviceError` when the requested one does not work here."""
        return contain(self._sandbox, self.device)

    @property
    def sandbox_used(self) -> str:
        """'bwrap', 'landlock' or 'none'."""
        return self.containment.used.value

    @property
    def passes_memory(self) -> bool:
        """Whether workers pass each other tensors as device memory."""
        return self.device != "cpu" and self.shares_memory

    @property
    def shares_memory(self) -> bool:
        """Whether the reference worker can open a candidate's CUDA memory."""
        return self.containment.shares_memory

    @property
    def server(self) -> ForkServer:
        """The fork server of trusted code; see `_both`."""
        return self._both.trusted

    @property
    def server_pids(self) -> tuple[int, ...]:
        """The servers' processes, whose load is the evaluator's own."""
        return tuple({server.pid for server in self._both})

    def start(self) -> None:
        """Start the servers, unless they run; returns before they are ready."""
        _ = self._both

    def start_compilers(self) -> None:
        """Start the server that compilers are forked from, unless it runs; returns before it is ready."""
        _ = self._both.untrusted if self.device == "cpu" else self._compilers_alone

    @property
    def compilers_ready(self) -> bool:
        """Whether the server that a GPU's compilers are forked from has started."""
        server = self._compiling
        return server is not None and server.ready

    def expect_languages(self, languages: Iterable[Language]) -> None:
        """Note languages that workers will need; servers import them while a new reference opens the device."""
        self._languages |= {language.modules[0]: language for language in languages}

    def load_languages(self, languages: Iterable[Language], required: Language | None = None) -> None:
        """Import languages before workers are forked; raises `DeviceError` where the required one cannot be."""
        self.expect_languages(languages)
        self._load_into(self._both.untrusted)
        compiling = self._compiling
        if compiling is not None and not all(map(compiling.knows, self._languages)):
            # Meanwhile: importing TileLang takes seconds.
            threading.Thread(target=self._load_into, args=(compiling,), daemon=True).start()
        if required is not None:
            self._both.untrusted.load(required.modules[0])

    def _load_into(self, server: ForkServer) -> None:
        """Import the languages that were needed so far, as far as they are installed and the server lives."""
        for module, language in [*self._languages.items()]:
            with contextlib.suppress(DeviceError, OSError, ValueError):
                server.load(module, language_module(language) if self.device != "cpu" else None)

    @property
    def _both(self) -> _Servers:
        """Return the servers, started when first needed, and again when one of them has ended."""
        with self._starting:
            if self._servers is not None and not all(server.alive for server in self._servers):
                self._close_servers()
            if self._servers is None:
                one, imported = self.containment.shares_memory, servers_import()
                untrusted = self._contained_server(imported, (self._work, *(self._trusted_writes() if one else ())))
                trusted = untrusted if one else self._contained_server(imported, self._trusted_writes(), (self._work,))
                self._servers = _Servers(trusted, untrusted)
            return self._servers

    @property
    def _compilers_alone(self) -> ForkServer:
        """Return a GPU's server of compilers, started when first needed, and again when it has ended.

        It cannot see the GPU: what compilers need imported might open it, and no fork of a process that has opened it
        can use it. They pretend to have one.
        """
        with self._starting:
            if self._compiling is not None and not self._compiling.alive:
                self._compiling.close()
                self._compiling = None
            if self._compiling is None:
                modules = (*servers_import(), COMPILERS_IMPORT)
                variables = {"CUDA_VISIBLE_DEVICES": "", NICE: str(COMPILER_NICE)}
                self._compiling = self._contained_server(modules, (self._work,), variables=variables)
            return self._compiling

    @property
    def _environment(self) -> dict[str, str]:
        # Torch creates this folder when torch._dynamo is imported, by default one that stays behind.
        return {**server_environment(self.device), "TORCHINDUCTOR_CACHE_DIR": str(self.folder / "inductor")}

    def _contained_server(
        self,
        modules: Sequence[str],
        writes: Sequence[Path],
        reads: Sequence[Path] = (),
        variables: Mapping[str, str] | None = None,
    ) -> ForkServer:
        """Start a server in the sandbox, whose workers write below `writes` and read the problems and `reads` too."""
        if self._closed:
            raise DeviceError("the evaluator is closed")
        inside = self.containment.command((*self._read, *reads), writes)
        home = home_in(_new_folder(writes[0], "home")) if inside else {}
        return ForkServer(modules, {**self._environment, **home, **(variables or {})}, inside, self.device_memory)

    def _trusted_writes(self) -> tuple[Path, ...]:
        """Return the folders where only the reference worker writes: Landlock blocks the others there."""
        if self._memory is not None:
            with contextlib.suppress(OSError):
                self._memory.mkdir(parents=True, exist_ok=True)
        return (self._hidden, self._read[1], *([self._memory] if self._memory and self._memory.is_dir() else []))

    def keep(self, problems: int) -> None:
        """Keep the reference workers of at least so many problems; the one that was used longest ago ends first."""
        self._references.most = max(self._references.most, problems)

    def reference_client(self, problem: TorchProblem) -> ReferenceClient:
        """Return the reference worker's client for a problem; the last ones are kept, since most calls repeat them."""
        return self._references.client(problem)

    def new_reference_client(self, problem: TorchProblem) -> ReferenceClient:
        """Start one more reference worker; the caller closes it."""
        options = {
            **self._problem(problem),
            **self._arithmetic(),
            "tolerances": dict(problem.tolerances),
            "helpers": str(self._helpers),
        }
        folder, writes = _new_folder(self._hidden, "reference"), self._trusted_writes()
        rules = self.containment.rules([self._read[0], self._work], writes)
        worker = self.server.fork("reference.worker", folder, **self._device(), rules=rules, **options)
        # Meanwhile: the server has nothing else to do.
        threading.Thread(target=self._load_into, args=(self._both.untrusted,), daemon=True).start()
        return ReferenceClient(problem, worker)

    def forget_reference(self) -> None:
        """End the reference workers, which frees their memory."""
        self._references.forget()

    def cache(self, kernel: Kernel) -> Path:
        """Return the cache folder for a kernel, whatever its constants.

        Finalists are not compiled a second time, nor is what was compiled for other sizes of the problem, where the
        code does not depend on them.
        """
        folder = self._work / f"cache-{kernel.bind(dict.fromkeys(kernel.config, 0)).digest}"
        folder.mkdir(exist_ok=True)
        return folder

    def candidate(self, problem: TorchProblem, cache: Path | None = None) -> Callable[[], Worker]:
        """Return a function that starts workers for candidates; they share `cache`, or have one each."""
        return self.untrusted("candidate.worker", {**self._problem(problem), **self._arithmetic()}, cache)

    def replay_worker(self) -> Worker:
        """Return a new worker that executes launch plans; it can read neither the problem nor other workers' files."""
        languages = tuple(self._languages)
        spare, self._spare = self._spare, None
        if spare is not None:
            if spare[0] == languages and spare[1].alive and spare[1].runs:
                return spare[1]
            spare[1].discard()
        return self.untrusted("replay.worker", self._arithmetic(), problems=False)()

    def retire(self, worker: Worker) -> None:
        """Kill a worker that executed launch plans: what it held on a GPU is freed while other things are done."""
        worker.kill()
        self._retired.append(worker)

    def _discard_retired(self, most: int = 0) -> None:
        """Remove what retired workers left, but of the last ones: they may not have ended."""
        while len(self._retired) > most:
            self._retired.pop(0).discard()

    def help_worker(self, worker: Worker) -> None:
        """Give a worker what was compiled since it started that launches kernels; it has run nothing yet."""
        if self.device != "cpu":
            copy_helpers(self._helpers, worker.folder / "cache")

    def expect_replay(self) -> None:
        """Start the next worker that executes launch plans: on a GPU it takes a second until it can."""
        self._discard_retired(most=1)
        if self.device != "cpu" and self._spare is None:
            self._spare = tuple(self._languages), self.replay_worker()

    def compilers(
        self,
        problem: TorchProblem,
        cache: Path,
        count: int,
        sizes: Mapping[str, Any] | None = None,
        strides: bool = False,
    ) -> CompilePool:
        """Start workers that compile into `cache`: at the problem's sizes or others, and for other `strides` too."""
        properties = self.reference_client(problem).properties
        nice = COMPILER_NICE if self.device == "cpu" else 0  # as its server
        options = {**self._problem(problem), "properties": properties, "nice": nice, "strides": strides}
        if sizes is not None:
            options["sizes"] = dict(sizes)
        if self.device == "cpu":
            server = self._both.untrusted
            server.load(COMPILERS_IMPORT)
        else:
            server = self._compilers_alone
        self._load_into(server)
        return CompilePool(self.untrusted("compilation.worker", options, cache, server), count, self._limits.compile_s)

    def new_folder(self, name: str) -> Path:
        """Return a folder that workers may write to; the caller removes it, or `close` does."""
        return _new_folder(self._work, name)

    def close(self) -> None:
        """End all processes and remove their folders."""
        self._closed = True
        self._close_servers()
        if self._compiling is not None:
            self._compiling.close()
        remove_tree(self.folder)

    def _close_servers(self) -> None:
        self._discard_retired()
        if self._spare is not None:
            self._spare[1].discard()
            self._spare = None
        self.forget_reference()
        if self._servers is not None:
            for server in set(self._servers):
                server.close()
            self._servers = None

    def untrusted(
        self,
        role: str,
        options: Mapping[str, Any],
        cache: Path | None = None,
        server: ForkServer | None = None,
        problems: bool = True,
    ) -> Callable[[], Worker]:
        """Return a function that starts workers of a role that runs untrusted code, each in its own folders.

        They are forked from `server`, by default that of candidates, and may read `problems`.
        """
        # The current server: starting another would end the reference worker, which may be in use.
        forks, containment, limits = server or self._both.untrusted, self.containment, self._limits

        def start() -> Worker:
            name = role.partition(".")[0]
            folder, inbox = self.new_folder(name), _new_folder(self._read[1], name)
            rules = containment.rules(
                [*([self._read[0]] if problems else []), inbox], [folder, *([cache] if cache else [])]
            )
            confined = {"memory_gib": limits.memory_gib, "file_gib": limits.file_gib, "rules": rules}
            where = {"cache": str(cache) if cache else None, "languages": [*self._languages]}
            copy_helpers(self._helpers, cache or folder / "cache")
            return forks.fork(role, folder, inbox, **{**self._device(), **confined, **where, **options})

        return start

    def _problem(self, problem: TorchProblem) -> dict[str, Any]:
        other = alternate_sizes(problem)  # the second workload's files are needed without another start
        return problem_options(problem, self._read[0], *([other] if other else []))

    def _arithmetic(self) -> dict[str, Any]:
        return {"precision": self._precision.value, "defaults_differ": defaults_differ(self.device)}

    def _device(self) -> dict[str, Any]:
        kind, _, number = self.device.partition(":")
        return {"device": kind, "visible": _visible_gpu(int(number or 0)) if kind == "cuda" else None}


class _Servers(NamedTuple):
    trusted: ForkServer
    untrusted: ForkServer


def _new_folder(where: Path, name: str) -> Path:
    """Create a folder with an unpredictable name, so that nobody can have put something there before."""
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=where))


def cores() -> int:
    """Return the number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _visible_gpu(number: int) -> str:
    """Return the name of one GPU for CUDA_VISIBLE_DEVICES, from its index among those that this process sees.

    A worker sees no other: for Triton the first GPU is the current one, wherever the tensors are.
    """
    seen = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return seen[number] if number < len(seen) else str(number)
