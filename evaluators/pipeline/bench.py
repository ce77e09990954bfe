"""One kernel after the other on a device: its reference, its worker, and the lock while it is checked and timed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from ...core import Config, Evaluation, Kernel, KernelError, ProblemError, Status, Target, TorchProblem
from ..candidate.client import CandidateClient
from ..candidate.verified import Failure
from ..compilation.pool import CompileResult
from ..correctness.alternate_shapes import alternate_sizes
from ..languages.base import support_of
from ..reference.client import ReferenceClient
from ..settings import Settings
from ..workers.removal import remove_tree
from .device_access import DeviceAccess
from .evaluation import EvaluationPipeline
from .processes import Processes
from .servers import languages_of
from .verdicts import compile_failure, failed_evaluation

SUSPICIOUS_SPEEDUP = 10.0
"""A suspicious speedup: a kernel this many times as fast as the reference is measured again, from the start."""
OUT_OF_MEMORY = ("out of memory", "ALLOC_FAILED")
"""What torch, CUDA and its libraries say: of a kernel, of its launch plan, at other sizes."""
CONFIRMED = "more than {:g} times as fast as the reference: measured twice, in two processes"
BESIDE = "beside this kernel, and not without it, {}; leave the reference memory and room on the disk"


class Bench:
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
        self.processes.expect_languages(languages)
        if not support_of(kernel.language).imports_quickly:  # the reference replays launches with it
            self.processes.load_languages(languages, kernel.language)
        self.processes.start()  # where one of the servers has ended, the reference is started again too
        reference_client = self.processes.reference_client(problem)
        self.processes.load_languages(languages, kernel.language)
        reference_client.environment["sandbox"] = self.processes.sandbox_used
        if not self._settings.sampling.heeds_load:
            reference_client.environment["timing"] = "quick"
        return reference_client

    def exclusive(self, reference_client: ReferenceClient) -> contextlib.AbstractContextManager[None]:
        """Return what has the device alone."""
        return self._access.exclusive(reference_client)

    def shared(self, reference_client: ReferenceClient) -> contextlib.AbstractContextManager[None]:
        """Return what has the device, alone only while something is measured."""
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
        with ThreadPoolExecutor(1) as beside:
            baselines = beside.submit(self.pipeline.compile_baselines, reference_client)
            try:
                compiled = self.compile_ahead(reference_client, kernel, config)
                baselines.result()
            except BaseException:  # an interruption among them, which would wait for the compiler
                reference_client.close()
                raise
        client.open()
        self.processes.expect_replay()  # not sooner: two that open a GPU wait for each other
        if compiled is None or not compiled.refused:
            client.load_ahead(config)
        return reference_client, client, compiled

    def _client_for(self, problem: TorchProblem, kernel: Kernel, config: Config) -> CandidateClient:
        """Return the last call's client when a search continues with the same kernel, else a new one.

        A kernel with nothing to bind always gets a fresh process: this is how a winner is checked for the last time.
        """
        same = self.client is not None and config and (self._problem, self.client.kernel) == (problem, kernel)
        if self.client is None or not same:
            self.forget_candidate()
            if self.device != "cpu":
                self._ahead = self.processes.new_folder("ahead")
        elif self.client.alive:
            return self.client
        else:  # it has ended, and what was compiled for it serves the next one
            self.client.close()
        self.client, self._problem = self.new_client(problem, kernel, self._ahead), problem
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

        It would keep others from measuring, so nobody may be there.
        """
        quickly = support_of(kernel.language).compiles_quickly and not self.processes.compilers_ready
        return quickly and self._access.is_free(reference_client)

    def new_client(self, problem: TorchProblem, kernel: Kernel, cache: Path | None = None) -> CandidateClient:
        """Return a client for a worker that is not started yet; `cache` has what was compiled for it."""
        new_worker = self.processes.candidate(problem, cache)
        return CandidateClient(kernel, self._settings.limits, new_worker, self.processes.passes_memory)

    def evaluate(
        self,
        reference_client: ReferenceClient,
        client: CandidateClient,
        config: Config,
        compiled: CompileResult | None = None,
        prune_above_ms: float | None = None,
    ) -> Evaluation:
        """Try again where memory may be why, alone on the device; with both workers restarted if the reference failed.

        Others that check meanwhile, or a candidate, may leave the reference too little memory. A second failure of the
        reference is the candidate's fault. Raises `ProblemError` where it also fails without a candidate.
        """
        for again in (False, True):
            try:
                if again:
                    self._access.share_no_longer()
                found = self.pipeline.one(reference_client, client, config, compiled, prune_above_ms)
                if again or not self.may_lack_memory([found]):
                    return found
            except ProblemError as error:
                client.close()
                reference_client = self.reference_for(reference_client.problem, client.kernel)
                if again:
                    reference_client.rehearse()
                    failure = Failure(Status.RUNTIME_ERROR, BESIDE.format(error))
        return failed_evaluation(reference_client, client, config, failure)

    def may_lack_memory(self, found: Iterable[Evaluation]) -> bool:
        """Return whether a step of one of them failed for want of memory, which others may have used."""
        texts = [item.model_dump_json(exclude={"measurement", "reference", "baselines", "log"}) for item in found]
        return self._access.began_shared and any(said in text for text in texts for said in OUT_OF_MEMORY)

    def forget_candidate(self) -> None:
        """End the candidate's process, and remove its compiled files."""
        if self.client is not None:
            self.client.close()
            self.client = None
        if self._ahead is not None:
            remove_tree(self._ahead)
            self._ahead = None
