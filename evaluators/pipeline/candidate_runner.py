"""One kernel after the other on a device: its reference, its worker, and the lock while it is checked and timed."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from ...core import Config, Evaluation, Kernel, KernelError, ProblemError, PythonKernel, Status, Target, TorchProblem
from ..candidate.client import CandidateClient
from ..candidate.verified import CandidateError
from ..compilation.pool import CompileResult
from ..correctness.alternate_shapes import alternate_sizes
from ..guards.torch_share import Operator
from ..languages.base import support_of
from ..reference.client import ReferenceClient, ReferenceLostError
from ..settings import Settings
from ..workers.client import Worker
from ..workers.removal import remove_tree
from ..workers.shortages import ATTEMPTS, TRIED
from .device_access import DeviceAccess
from .device_memory import held_by_others, may_be_short
from .evaluation import EvaluationPipeline
from .processes import Processes
from .servers import languages_of
from .verdicts import compile_failure, failed_evaluation

_LOG = logging.getLogger(__name__)
SUSPICIOUS_SPEEDUP = 10.0
"""A suspicious speedup: a kernel this many times as fast as the reference is measured again, from the start."""
OUT_OF_MEMORY = ("out of memory", "ALLOC_FAILED")
"""Messages of torch, CUDA and its libraries about too little memory, for a kernel, its plan or other sizes."""
CONFIRMED = "more than {:g} times as fast as the reference: measured twice, in two processes"
BESIDE = "beside this kernel, and not without it, {}; leave the reference memory and room on the disk"


class CandidateRunner:
    """Evaluates single configs; keeps the candidate's worker from one to the next where that is the same kernel's."""

    def __init__(
        self, device: str, settings: Settings, processes: Processes, pipeline: EvaluationPipeline, access: DeviceAccess
    ) -> None:
        self.device = device
        self.pipeline = pipeline
        self.processes = processes
        self.client: CandidateClient | None = None
        """The candidate's, kept for another config."""
        self._settings = settings
        self._access = access
        self._problem: TorchProblem | None = None  # the client's
        self._ahead: Path | None = None  # the cache folder of the client's compilation ahead

    def reference_for(self, problem: TorchProblem, kernel: Kernel) -> ReferenceClient:
        """Return the problem's reference; raises `KernelError` for a kernel that the device cannot run."""
        if not kernel.runs_on(Target.of_device(self.device)):
            raise KernelError(f"{kernel.name} is written for {kernel.target}; it cannot run on {self.device}")
        languages = languages_of(kernel)
        self.processes.servers.expect(languages)
        if not support_of(kernel.language).imports_quickly:  # the reference replays launches with it
            self.processes.servers.load(languages, kernel.language)
        self.processes.start()  # where one of the servers has ended, the reference is started again too
        reference_client = self.processes.reference_client(problem)
        self.processes.servers.load(languages, kernel.language)
        reference_client.notes["sandbox"] = self.processes.sandbox_used
        if not self._settings.sampling.heeds_load:
            reference_client.notes["timing"] = "quick"
        reference_client.described_gpu = self._settings.described_gpu
        if problem.package is not None:
            reference_client.run_start = partial(self._run_start, reference_client, kernel)
            reference_client.count_start = partial(self._count_start, reference_client, kernel)
        return reference_client

    def _run_start(
        self,
        reference_client: ReferenceClient,
        kernel: Kernel,
        distribution: str | None,
        learn: bool,
        seed: int | None,
    ) -> Sequence[int]:
        """Run the user's function as it is, if it runs; see `CandidateClient.run_start`."""
        with contextlib.closing(self._start(reference_client, kernel)) as client, contextlib.suppress(CandidateError):
            return client.run_start(reference_client, distribution, learn, seed)
        return []

    def _count_start(
        self, reference_client: ReferenceClient, kernel: Kernel, seed: int, integers: int | None
    ) -> Sequence[Operator]:
        """Count torch's operators in the user's function as it stands, if it runs."""
        with contextlib.closing(self._start(reference_client, kernel)) as client, contextlib.suppress(CandidateError):
            return client.count_start(reference_client, seed, integers)
        return []

    def _start(self, reference_client: ReferenceClient, kernel: Kernel) -> CandidateClient:
        problem = reference_client.problem
        assert problem.package is not None
        start = PythonKernel(kernel.language, kernel.target, problem.package.source, problem.name)
        new_worker = self.processes.candidate(problem, described_gpu=self._settings.described_gpu)
        return CandidateClient(start, self._settings.limits, new_worker)

    def exclusive(self, reference_client: ReferenceClient) -> contextlib.AbstractContextManager[None]:
        """Return what has the device alone."""
        self.processes.wait_ready()
        self.processes.replay_workers.wait()
        return self._access.exclusive(reference_client)

    def shared(self, reference_client: ReferenceClient) -> contextlib.AbstractContextManager[None]:
        """Return what has the device, alone only while something is measured."""
        self.processes.wait_ready()
        return self._access.shared(reference_client)

    def evaluate_in_full(self, problem: TorchProblem, kernel: Kernel, config: Config) -> Evaluation:
        """Evaluate in a process of its own where there is nothing to bind, and twice where it is suspiciously fast."""
        try:
            found = self._evaluate_once(problem, kernel, config)
            if found.speedup is None or found.speedup.ratio <= SUSPICIOUS_SPEEDUP:
                return found
            self.forget_candidate()
            again = self._evaluate_once(problem, kernel, config)
            if again.speedup is None or again.speedup.ratio <= SUSPICIOUS_SPEEDUP:
                return again  # the slower of two times that differ
            message = CONFIRMED.format(SUSPICIOUS_SPEEDUP) if again.contention is None else again.message
            return again.model_copy(update={"message": message})
        finally:
            if not config:
                self.forget_candidate()

    def _evaluate_once(self, problem: TorchProblem, kernel: Kernel, config: Config) -> Evaluation:
        reference_client, client, compiled = self.prepared(problem, kernel, config)
        if compiled is not None and compiled.refused:
            return compile_failure(reference_client, kernel, config, compiled)
        with self.shared(reference_client):
            return self.evaluate(reference_client, client, config, compiled)

    def prepared(
        self, problem: TorchProblem, kernel: Kernel, config: Config
    ) -> tuple[ReferenceClient, CandidateClient, CompileResult | None]:
        """Return both clients, and what compiling ahead gave: all that is done before the device is locked."""
        # The current reference client: a server that the last config took down took its worker too.
        reference_client = self.reference_for(problem, kernel)
        client = self._client_for(reference_client.problem, kernel, config)
        client.start()  # it opens the GPU while the kernel is compiled
        _ = reference_client.properties  # what compilers ask of the reference worker, which is busy from now on
        with ThreadPoolExecutor(2) as beside:
            others = [
                beside.submit(self._open, reference_client, client),
                beside.submit(self._ask_ahead, reference_client),
            ]
            try:
                compiled = self.compile_ahead(reference_client, kernel, config)
                for other in others:
                    other.result()
            except BaseException:  # an interruption among them, which would wait for the compiler
                client.kill()
                reference_client.close()
                raise
        self.processes.tidy()
        if compiled is not None and compiled.signatures and self._ahead is not None:
            with contextlib.suppress(ProblemError):  # the candidate compiles its own then
                self.processes.build_helpers(reference_client, kernel, compiled.signatures, self._ahead)
        if not reference_client.alive:
            reference_client = self.reference_for(problem, kernel)
        if compiled is None or not compiled.refused:
            client.load_ahead(config)
        return reference_client, client, compiled

    def _open(self, reference_client: ReferenceClient, client: CandidateClient) -> None:
        """Wait until the candidate's process has opened the device, then let that of its plans do so, unless another
        process measures there: two that open a GPU wait for each other."""
        client.open()
        if self._access.is_free(reference_client):
            self.processes.replay_workers.expect()

    def _ask_ahead(self, reference_client: ReferenceClient) -> None:
        """Let the reference compile baselines, and find what checks need to know, before the device is locked.

        The latter computes on the device, as starting the reference did, so only while no process measures there.
        """
        self.pipeline.compile_baselines(reference_client)
        if self.device != "cpu" and self._access.is_free(reference_client):
            with contextlib.suppress(ProblemError):  # it is asked again, alone on the device
                _ = reference_client.distributions, reference_client.counted

    def _client_for(self, problem: TorchProblem, kernel: Kernel, config: Config) -> CandidateClient:
        """Return the last call's client when a search continues with the same kernel, else a new one.

        A kernel with nothing to bind always gets a fresh process: this is how a winner is checked for the last time.
        """
        same = self.client is not None and config and (self._problem, self.client.kernel) == (problem, kernel)
        if self.client is None or not same:
            self.forget_candidate()
            new_worker = None
            if self.device != "cpu":
                self._ahead, new_worker = self.processes.candidate_ahead(problem, self._settings.described_gpu)
            self.client, self._problem = self.new_client(problem, kernel, self._ahead, new_worker), problem
        elif not self.client.alive:  # it has ended, and what was compiled for it serves the next one
            self.client.close()
            self.client = self.new_client(problem, kernel, self._ahead)
        return self.client

    def compile_ahead(self, reference_client: ReferenceClient, kernel: Kernel, config: Config) -> CompileResult | None:
        """Compile for the client before the device is locked: for all that `evaluate` runs, other sizes too.

        Never on a CPU, where compilers would disturb timings; and not where the client itself compiles sooner.
        """
        if self._ahead is None:
            return None
        if self.compiles_itself(reference_client, kernel):
            return None
        problem, source = reference_client.problem, kernel.bind(config).source
        sizes = alternate_sizes(problem) if self._settings.second_workload else None
        with contextlib.ExitStack() as stack:
            pool = stack.enter_context(self.processes.compilers(problem, self._ahead, 1, strides=True))
            here = pool.submit(source)
            if sizes is None:
                return here.result()
            others = stack.enter_context(self.processes.compilers(problem, self._ahead, 1, sizes=sizes))
            elsewhere = others.submit(source)
            compiled = here.result()
            return compiled if compiled.refused else replace(compiled, elsewhere=elsewhere.result())

    def compiles_itself(self, reference_client: ReferenceClient, kernel: Kernel) -> bool:
        """Return whether the kernel's own worker compiles it sooner than compilers whose server still starts.

        Compiling there blocks the measurements of others, so the device must be free.
        """
        quickly = support_of(kernel.language).compiles_quickly and not self.processes.servers.compilers_ready
        return quickly and self._access.is_free(reference_client)

    def new_client(
        self,
        problem: TorchProblem,
        kernel: Kernel,
        cache: Path | None = None,
        new_worker: Callable[[], Worker] | None = None,
    ) -> CandidateClient:
        """Return a client for a worker that is not started yet; `cache` has what was compiled for it.

        `new_worker` starts workers with this cache.
        """
        new_worker = new_worker or self.processes.candidate(problem, cache, self._settings.described_gpu)
        return CandidateClient(kernel, self._settings.limits, new_worker, self.processes.passes_memory)

    def evaluate(
        self,
        reference_client: ReferenceClient,
        client: CandidateClient,
        config: Config,
        compiled: CompileResult | None = None,
        prune_above_ms: float | None = None,
    ) -> Evaluation:
        """Try again what failed for the machine's sake, with a new worker, `ATTEMPTS` times in all."""
        for attempt in range(1, ATTEMPTS + 1):
            if not reference_client.alive:
                reference_client = self.reference_for(reference_client.problem, client.kernel)
            found = self._evaluate_with_memory(reference_client, client, config, compiled, prune_above_ms)
            if (cause := self._held_by_others(reference_client, client, found)) is not None:
                failure = CandidateError(Status.NOT_MEASURED, cause)
                found = failed_evaluation(reference_client, client, config, failure)
            if found.measured or attempt == ATTEMPTS:
                break
            _LOG.warning("%s; it is tried again", found.message)
            client.close()
        return found if found.measured else found.model_copy(update={"message": f"{found.message}; {TRIED}"})

    def _evaluate_with_memory(
        self,
        reference_client: ReferenceClient,
        client: CandidateClient,
        config: Config,
        compiled: CompileResult | None,
        prune_above_ms: float | None,
    ) -> Evaluation:
        """Try again where memory may be why, alone on the device; with both workers restarted if the reference failed.

        Others that check meanwhile, or a candidate, may leave the reference too little memory; or what it keeps, the
        candidate. A second failure of the reference is the candidate's fault, unless somebody killed it. Raises
        `ProblemError` where it also fails without a candidate.
        """
        for again in (False, True):
            try:
                if again:
                    self._access.upgrade_to_exclusive()
                    self.processes.free_spares()
                    reference_client.save_memory()
                found = self.pipeline.one(reference_client, client, config, compiled, prune_above_ms)
                if again or not self.may_lack_memory(reference_client.problem, [found]):
                    return found
            except ProblemError as error:
                client.close()
                reference_client = self.reference_for(reference_client.problem, client.kernel)
                if again and isinstance(error, ReferenceLostError):
                    failure = CandidateError(Status.NOT_MEASURED, str(error))
                elif again:
                    reference_client.rehearse()
                    failure = CandidateError(Status.RUNTIME_ERROR, BESIDE.format(error))
        return failed_evaluation(reference_client, client, config, failure)

    def may_lack_memory(self, problem: TorchProblem, found: Iterable[Evaluation]) -> bool:
        """Return whether a step of one of them failed for want of memory, which others or the reference may have."""
        texts = [item.model_dump_json(exclude={"measurement", "reference", "baselines", "log"}) for item in found]
        if not any(said in text for text in texts for said in OUT_OF_MEMORY):
            return False
        reference_client = self.processes.reference_client(problem)
        if self._access.began_shared or reference_client.keeps_memory:
            return True
        return may_be_short(reference_client.environment.get("uuid"))

    def _held_by_others(
        self, reference_client: ReferenceClient, client: CandidateClient, found: Evaluation
    ) -> str | None:
        """Return the cause where a kernel failed for want of memory that other processes hold on the GPU.

        Only an empty GPU shows that: all workers on it end, and are started again for what comes next.
        """
        # A process that could not even open the GPU says so in its log alone.
        text = f"{found.message}\n{found.log}" if found.status is Status.CRASHED else found.message
        failed = found.status in (Status.RUNTIME_ERROR, Status.CRASHED)
        lacked = failed and any(said in text for said in OUT_OF_MEMORY)
        if not lacked or not may_be_short(gpu := reference_client.environment.get("uuid")):
            return None
        client.close()
        self.processes.free_spares()
        self.processes.leave_device()
        return held_by_others(gpu, text)

    def forget_candidate(self) -> None:
        """End the candidate's process; its files are removed later, those that were compiled for it too."""
        if self.client is not None:
            self.client.end()
            self.processes.later(self.client.close)
            self.client = None
        if self._ahead is not None:
            self.processes.later(partial(remove_tree, self._ahead))
            self._ahead = None
