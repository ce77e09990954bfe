"""The processes behind an evaluator: fork servers, the reference worker, workers for candidates and compilers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ...core import Kernel, TorchProblem
from ...core.environment import allowed_environment
from ...core.language import cache_environment
from ..compilation.pool import CompilePool
from ..correctness.alternate_shapes import alternate_sizes
from ..devices import visible_gpu
from ..languages.described_gpu import USUAL
from ..languages.helpers import copy_helpers
from ..reference.arithmetic import defaults_differ
from ..reference.client import ReferenceClient
from ..sandbox.containment import home_in
from ..settings import Limits, Precision, Sandbox
from ..workers.client import Worker
from ..workers.problem_file import problem_options
from ..workers.removal import remove_tree
from ..workers.server_client import ForkServer, import_path
from .apart import Apart
from .fork_servers import COMPILER_NICE, Folders, ForkServers, new_folder
from .references import ReferenceClients
from .replay_workers import ReplayWorkerPool
from .sanitizer import Sanitizer
from .servers import COMPILERS_IMPORT, server_environment
from .spare_candidate import SpareCandidate


class Processes:
    """Starts workers when they are needed, in temporary folders that `close` removes with the processes."""

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
        self._folders = Folders(memory)
        self.folder = self._folders.root
        """The temporary folder of everything."""
        self._limits = limits
        self._precision = precision
        self._closed = False
        self.servers = ForkServers(device, self._folders, sandbox, self.leave_device)
        """The fork servers of the workers."""
        self._references = ReferenceClients(self.new_reference_client, self._problem)
        self._tidying = ThreadPoolExecutor(1, "tidying")
        self.replay_workers = ReplayWorkerPool(
            self._new_replay_worker, self.servers.languages, device, self._folders.helpers, self.later
        )
        """Workers that execute launch plans; they can read neither the problem nor other workers' files."""
        self.spare_candidate = SpareCandidate(lambda: self.new_folder("ahead"))
        """The process of the next kernel of the same problem, on a GPU."""
        self.sanitizer = Sanitizer(self.apart, limits)
        """Runs compute-sanitizer on plans; evaluators that share processes share its results."""

    @property
    def sandbox_used(self) -> str:
        """'bwrap', 'landlock' or 'none'."""
        return self.servers.containment.used.value

    @property
    def passes_memory(self) -> bool:
        """Whether workers pass each other tensors as device memory: the reference worker can open a candidate's."""
        return self.device != "cpu" and self.servers.containment.shares_memory

    @property
    def server(self) -> ForkServer:
        """The fork server of trusted code."""
        return self.servers.running.trusted

    @property
    def server_pids(self) -> tuple[int, ...]:
        """The servers' processes, whose load is the evaluator's own."""
        return tuple({server.pid for server in self.servers.running})

    def start(self) -> None:
        """Start the servers, unless they run; returns before they are ready."""
        _ = self.servers.running

    def start_compilers(self) -> None:
        """Start the server that compilers are forked from, unless it runs; returns before it is ready."""
        _ = self.servers.compiling

    def keep(self, problems: int) -> None:
        """Keep the reference workers of at least this many problems; the one that was used longest ago ends first."""
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
            "helpers": str(self._folders.helpers),
        }
        folders, servers = self._folders, self.servers
        folder, writes = new_folder(folders.hidden, "reference"), folders.trusted_writes()
        rules = servers.containment.rules([folders.problems, folders.work, *servers.shown], writes)

        def start() -> Worker:
            return self.server.fork("reference.worker", folder, **self._device(), rules=rules, **options)

        worker = start()
        servers.load_meanwhile(servers.running.untrusted)  # it has nothing else to do
        return ReferenceClient(problem, worker, start)

    def wait_ready(self) -> None:
        """Wait until no reference worker and no spare candidate is busy getting ready, which disturbs measurements."""
        self._references.wait_ready()
        self.spare_candidate.wait()

    def expect_next(self) -> None:
        """Start the processes of the next kernel of the same problem, if the last two were of one."""
        if self.spare_candidate.expect():
            self.replay_workers.expect()

    def free_spares(self) -> None:
        """End the processes that wait for the next kernel, which hold memory of the GPU, once they have opened it."""
        self.spare_candidate.wait()
        self.spare_candidate.close()
        self.replay_workers.discard_spare()

    def begin_evaluation(self) -> None:
        """Note that what is judged from now on is not compared with what was judged before."""
        self._references.integers.forget()

    def forget_reference(self) -> None:
        """End the reference workers, which frees their memory."""
        self._references.forget()

    def rest(self) -> None:
        """Get ready for another command: of the reference workers only that of the last problem stays.

        Not even that if it reads files other than its source, which may change meanwhile.
        """
        self.free_spares()
        self._references.most = 1
        self._references.forget(but_last=True)

    def cache(self, kernel: Kernel) -> Path:
        """Return the cache folder for a kernel, whatever its constants.

        Finalists are not compiled a second time, nor is what was compiled for other sizes of the problem, where the
        code does not depend on them.
        """
        folder = self._folders.work / f"cache-{kernel.bind(dict.fromkeys(kernel.config, 0)).digest}"
        folder.mkdir(exist_ok=True)
        return folder

    def candidate(
        self, problem: TorchProblem, cache: Path | None = None, described_gpu: str = USUAL
    ) -> Callable[[], Worker]:
        """Return a function that starts workers for candidates; they share `cache`, or have one each.

        On a CPU, launchers whose kernels are interpreted see a described GPU.
        """
        options = {**self._problem(problem), **self._arithmetic(), "described_gpu": described_gpu}
        return self.untrusted("candidate.worker", options, cache)

    def candidate_ahead(self, problem: TorchProblem, described_gpu: str) -> tuple[Path, Callable[[], Worker]]:
        """Return a cache folder that the caller removes, and what starts workers for candidates with it.

        The first of them may have been started ahead.
        """
        key = problem, described_gpu, tuple(self.servers.languages)
        return self.spare_candidate.take(key, lambda cache: self.candidate(problem, cache, described_gpu)())

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
        server = self.servers.compiling
        if self.device == "cpu":
            server.load(COMPILERS_IMPORT)
        self.servers.load_into(server)
        return CompilePool(self.untrusted("compilation.worker", options, cache, server), count, self._limits.compile_s)

    def build_helpers(
        self, reference_client: ReferenceClient, kernel: Kernel, signatures: Sequence[Sequence[str]], cache: Path
    ) -> None:
        """Let the reference worker compile what launches kernels with such parameters, unless it has, and copy that to
        a candidate's cache."""
        reference_client.call("build_helpers", language=kernel.language.id, signatures=[*map(list, signatures)])
        copy_helpers(self._folders.helpers, cache)

    @contextlib.contextmanager
    def apart(self, name: str, tools: Sequence[Path]) -> Iterator[Apart]:
        """Yield what confines a program that is forked from no server, and may read `tools`; its files are removed."""
        folder, inbox = self.new_folder(name), new_folder(self._folders.inbox, name)
        rules = self.servers.containment.rules([inbox, *tools], [folder])
        visible, copied = self._device()["visible"], folder / "cache"
        copy_helpers(self._folders.helpers, copied)
        environment = {
            **allowed_environment(os.environ),
            **import_path(),
            **server_environment(self.device),
            **home_in(folder),
            **cache_environment(copied),
            **(visible or {}),
            "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
        }
        options = {**self._arithmetic(), "device": self._device()["device"], "languages": [*self.servers.languages]}
        try:
            yield Apart(
                folder=folder,
                inbox=inbox,
                inside=self.servers.containment.command([*tools, inbox], [folder]),
                rules=None if rules is None else {**rules, "streams": True},
                environment=environment,
                options=options,
            )
        finally:
            remove_tree(folder)
            remove_tree(inbox)

    def later(self, work: Callable[[], object]) -> None:
        """Do work in the background, such as removing files: freeing them on a disk takes longer than many a check."""
        if self._closed:
            work()
        else:
            self._tidying.submit(work)

    def tidy(self) -> None:
        """Wait for all that `later` was given: what is to be removed may have left no space on the disk."""
        if not self._closed:
            self._tidying.submit(lambda: None).result()

    def new_folder(self, name: str) -> Path:
        """Return a folder that workers may write to; the caller removes it, or `close` does."""
        return new_folder(self._folders.work, name)

    def close(self) -> None:
        """End all processes and remove their folders."""
        self._closed = True
        self.spare_candidate.wait()
        self._tidying.shutdown()
        self.servers.close()
        remove_tree(self.folder)
        self._folders.own.close()

    def leave_device(self) -> None:
        """End all workers on the device, except candidates, which their callers end; what is needed starts again."""
        self.replay_workers.close()
        self.spare_candidate.close()
        self.forget_reference()

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
        forks, containment, limits = server or self.servers.running.untrusted, self.servers.containment, self._limits

        def start() -> Worker:
            name = role.partition(".")[0]
            folder, inbox = self.new_folder(name), new_folder(self._folders.inbox, name)
            reads = [self._folders.problems, *self.servers.shown] if problems else []
            rules = containment.rules([*reads, inbox], [folder, *([cache] if cache else [])])
            confined = {"memory_gib": limits.memory_gib, "file_gib": limits.file_gib, "rules": rules}
            where = {"cache": str(cache) if cache else None, "languages": [*self.servers.languages]}
            copy_helpers(self._folders.helpers, cache or folder / "cache")
            return forks.fork(role, folder, inbox, **{**self._device(), **confined, **where, **options})

        return start

    def _new_replay_worker(self) -> Worker:
        return self.untrusted("replay.worker", self._arithmetic(), problems=False)()

    def _problem(self, problem: TorchProblem) -> dict[str, Any]:
        if problem.package is not None:
            self.servers.show(problem.package.shown)
        other = alternate_sizes(problem)  # the second workload's files are needed without another start
        return problem_options(problem, self._folders.problems, *([other] if other else []))

    def _arithmetic(self) -> dict[str, Any]:
        return {"precision": self._precision.value, "defaults_differ": defaults_differ(self.device)}

    def _device(self) -> dict[str, Any]:
        kind, _, number = self.device.partition(":")
        return {"device": kind, "visible": visible_gpu(int(number or 0)) if kind == "cuda" else None}
