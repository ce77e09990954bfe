"""The processes behind an evaluator: fork servers, the reference worker, workers for candidates and compilers."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from ...core import DeviceError, Kernel, TorchProblem, known_languages
from ...core.language import plugin_environment
from ..compilation.pool import CompilePool
from ..correctness.alternate_shapes import alternate_sizes
from ..languages.base import supports
from ..languages.helpers import copy_helpers
from ..reference.arithmetic import defaults_differ
from ..reference.client import ReferenceClient
from ..sandbox.containment import Containment, contain, home_in
from ..settings import Limits, Precision, Sandbox
from ..workers.client import ForkServer, Worker
from ..workers.memory import DeviceMemory
from ..workers.problem_file import problem_options
from .spare import SpareWorker

ENVIRONMENT = {
    "PYTHONDONTWRITEBYTECODE": "1",
    # The profiler's messages would appear in the logs of kernels.
    "KINETO_LOG_LEVEL": "6",
    # Counting devices must not initialize CUDA in the server, since its forks could not use it then.
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
    # Keep freed memory for the next call, in candidate and reference. By default malloc returns large blocks or not
    # depending on earlier frees, and page faults make the same call five times slower.
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(16 << 30),
}
"""Variables of the fork servers and all their workers, besides what languages need."""

REFERENCES_IMPORT = ("torch",)
_LANGUAGES = f"{__package__.rpartition('.')[0]}.languages"
COMPILERS_IMPORT = "torch._dynamo"
"""Fake tensors import it: a second that each compiler would spend again. Not in the servers of GPUs: an import that
looked for the GPU would break it for all forks, and this has not been tried there."""

COMPILER_NICE = 10
"""Lower priority of a compiler relative to measurements (`nice`)."""


def kernels_import(device: str) -> tuple[str, ...]:
    """Return the modules that candidates find imported."""
    languages = [language.modules[0] for language in known_languages()]
    ahead = [f"{_LANGUAGES}.preloaded"] if device != "cpu" else []
    return tuple(dict.fromkeys(["torch", *languages, *_support_modules(), *ahead]))


def _support_modules() -> tuple[str, ...]:
    return tuple(type(support).__module__ for support in supports())


def server_environment(device: str) -> dict[str, str]:
    """Return the variables of servers and workers for a device."""
    found = {**ENVIRONMENT, **plugin_environment()}
    for support in supports():
        found |= {**support.environment, **(support.cpu_environment if device == "cpu" else {})}
    return found


class Processes:
    """Starts processes when they are needed, in a temporary folder that `close` removes.

    The reference worker is forked from a server of trusted code; candidates and compilers, which run untrusted code,
    from one in the sandbox, or from the same one where the sandbox needs no separate server. The folder contains
    problems and inboxes, which untrusted code may read; its work, where it writes; and the reference worker's files,
    hidden from it.
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
        self.spare = SpareWorker()
        self._servers: _Servers | None = None
        self._closed = False
        self._kept = 1
        self._reference_clients: list[ReferenceClient] = []
        self._lock = threading.Lock()

    @cached_property
    def containment(self) -> Containment:
        """The containment of untrusted code; raises `DeviceError` when the requested one does not work here."""
        return contain(self._sandbox, self.device)

    @property
    def sandbox_used(self) -> str:
        """'bwrap', 'landlock' or 'none'."""
        return self.containment.used.value

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

    def require(self, module: str) -> None:
        """Raise `DeviceError` unless kernels can import the module."""
        self._both.untrusted.require(module)

    @property
    def _both(self) -> _Servers:
        """Return the servers, started when first needed, and again when one of them has ended."""
        if self._servers is not None and not all(server.alive for server in self._servers):
            self._close_servers()
        if self._servers is None:
            if self._closed:
                raise DeviceError("the evaluator is closed")
            # Torch creates this folder when torch._dynamo is imported, by default one that stays behind.
            environment = {**server_environment(self.device), "TORCHINDUCTOR_CACHE_DIR": str(self.folder / "inductor")}
            one = self.containment.shares_memory
            inside = self.containment.command(self._read, (self._work, *(self._trusted_writes() if one else ())))
            home = home_in(self.new_folder("home")) if inside else {}
            memory = self.device_memory
            untrusted = ForkServer(kernels_import(self.device), environment | home, inside, memory)
            trusted = (
                untrusted
                if one
                else ForkServer((*REFERENCES_IMPORT, *_support_modules()), environment, device_memory=memory)
            )
            self._servers = _Servers(trusted, untrusted)
        return self._servers

    def _trusted_writes(self) -> tuple[Path, ...]:
        """Return the folders where only trusted workers write: Landlock blocks the others there."""
        if self._memory is not None:
            with contextlib.suppress(OSError):
                self._memory.mkdir(parents=True, exist_ok=True)
        return (self._hidden, self._read[1], *([self._memory] if self._memory and self._memory.is_dir() else []))

    def keep(self, problems: int) -> None:
        """Keep the reference workers of at least so many problems; the one that was used longest ago ends first."""
        self._kept = max(self._kept, problems)
        self.spare.most = self._kept

    def reference_client(self, problem: TorchProblem) -> ReferenceClient:
        """Return the reference worker's client for a problem; the last ones are kept, since most calls repeat them."""
        with self._lock:
            known = next((one for one in self._reference_clients if one.problem == problem), None)
            if known is not None:
                self._reference_clients.remove(known)
                if known.alive:
                    self._reference_clients.append(known)
                    return known
            ended = [] if known is None else [known]
            while len(self._reference_clients) >= self._kept:
                ended.append(self._reference_clients.pop(0))
        for one in ended:
            one.close()
        client = self.new_reference_client(problem)
        with self._lock:
            self._reference_clients.append(client)
        return client

    def new_reference_client(self, problem: TorchProblem) -> ReferenceClient:
        """Start one more reference worker; the caller closes it."""
        options = {
            **self._problem(problem),
            **self._arithmetic(),
            "tolerances": dict(problem.tolerances),
            "helpers": str(self._helpers),
        }
        folder = _new_folder(self._hidden, "reference")
        return ReferenceClient(problem, self.server.fork("reference.worker", folder, **self._device(), **options))

    def forget_reference(self) -> None:
        """End the reference workers, which frees their memory."""
        while self._reference_clients:
            self._reference_clients.pop().close()

    def cache(self, kernel: Kernel) -> Path:
        """Return the cache folder for a kernel: finalists are not compiled a second time."""
        folder = self._work / f"cache-{kernel.digest}"
        folder.mkdir(exist_ok=True)
        return folder

    def candidate(self, problem: TorchProblem, cache: Path | None = None) -> Callable[[], Worker]:
        """Return a function that starts workers for candidates; they share `cache`, or have one each."""
        start = self._new_candidate(problem, cache)
        return start if cache is not None else lambda: self.spare.take(problem) or start()

    def start_spare(self, problem: TorchProblem) -> None:
        """On a GPU, start the worker of the next candidate, for one that has no shared `cache`."""
        if self.device != "cpu":
            self.spare.start(problem, self._new_candidate(problem))

    def _new_candidate(self, problem: TorchProblem, cache: Path | None = None) -> Callable[[], Worker]:
        return self.untrusted("candidate.worker", {**self._problem(problem), **self._arithmetic()}, cache)

    def compilers(self, problem: TorchProblem, cache: Path, count: int) -> CompilePool:
        """Start workers that compile into `cache`."""
        properties = self.reference_client(problem).call("properties")["properties"]
        options = {**self._problem(problem), "properties": properties, "nice": COMPILER_NICE}
        if self.device == "cpu":
            self._both.untrusted.load(COMPILERS_IMPORT)
        return CompilePool(self.untrusted("compilation.worker", options, cache), count, self._limits.compile_s)

    def new_folder(self, name: str) -> Path:
        """Return a folder that workers may write to; the caller removes it, or `close` does."""
        return _new_folder(self._work, name)

    def close(self) -> None:
        """End all processes and remove their folders."""
        self._closed = True
        self._close_servers()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _close_servers(self) -> None:
        self.forget_reference()
        self.spare.discard()
        if self._servers is not None:
            for server in set(self._servers):
                server.close()
            self._servers = None

    def untrusted(self, role: str, options: Mapping[str, Any], cache: Path | None = None) -> Callable[[], Worker]:
        """Return a function that starts workers of a role that runs untrusted code, each in its own folders."""
        # The current server: starting another would end the reference worker, which may be in use.
        server, containment, limits = self._both.untrusted, self.containment, self._limits

        def start() -> Worker:
            name = role.partition(".")[0]
            folder, inbox = self.new_folder(name), _new_folder(self._read[1], name)
            rules = containment.rules([self._read[0], inbox], [folder, *([cache] if cache else [])])
            confined = {"memory_gib": limits.memory_gib, "file_gib": limits.file_gib, "rules": rules}
            where = {"cache": str(cache) if cache else None}
            copy_helpers(self._helpers, cache or folder / "cache")
            return server.fork(role, folder, inbox, **{**self._device(), **confined, **where, **options})

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
