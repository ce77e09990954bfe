"""The evaluator of this machine: its CPU, or one of its CUDA GPUs.

Three kinds of processes take part, all forked from a fork server: the candidate's worker runs the kernel and nothing
else; the reference worker runs the reference and compares; compilers work ahead in a search. This process passes
seeds, file names and results between them and computes every statistic itself.
"""

from __future__ import annotations

import contextlib
import math
import random
import shutil
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ..core import (
    Config,
    Evaluation,
    Kernel,
    KernelError,
    Problem,
    ProblemError,
    Profile,
    Rejection,
    Status,
    Target,
    TorchProblem,
)
from ..core.generated_code import GeneratedCode
from ..core.launch_plan import LaunchPlan
from .candidate.client import CandidateClient
from .candidate.verified import Failure
from .compilation.ahead import compiled_ahead
from .compilation.pool import CompileResult, CompileStatus
from .guards.own_kernels import registers_operators
from .guards.source import find_violation
from .pipeline.evaluation import EvaluationPipeline, is_timed
from .pipeline.interleaved_timer import InterleavedTimer, InterleavedTimes
from .pipeline.processes import Processes, cores
from .pipeline.verdicts import compile_failure, duplicate_evaluation, failed_evaluation, rejected_evaluation
from .reference.client import ReferenceClient
from .reference.roofline import profile
from .settings import SearchSettings, Settings
from .workers.device_lock import DeviceLock

SUSPICIOUS_SPEEDUP = 10.0
"""A suspicious speedup: a kernel this many times as fast as the reference is measured again, from the start."""
CONFIRMED = "more than {:g} times as fast as the reference: measured twice, in two processes"
BESIDE = "beside this kernel, and not without it, {}; leave the reference memory and room on the disk"


class LocalEvaluator:
    """Evaluates on `device`, 'cpu' or 'cuda' or 'cuda:1'.

    `memory` is a folder for once-per-device measurements (its ceilings). Seeds come from `rng`, by default from the
    system's entropy, and are recorded in the evaluations. `processes` are another evaluator's, which ends them.
    """

    def __init__(
        self,
        device: str = "cpu",
        settings: Settings | None = None,
        memory: Path | None = None,
        rng: random.Random | None = None,
        processes: Processes | None = None,
    ) -> None:
        self.device = device
        self.settings = settings or Settings()
        self.processes = processes or Processes(
            device, self.settings.limits, self.settings.sandbox, memory, self.settings.precision
        )
        self._owns_processes = processes is None
        self._memory = memory
        self._rng = rng or random.SystemRandom()
        self._timekeeper = InterleavedTimer(device, self.settings, self.processes, memory)
        self._examiner = EvaluationPipeline(
            device,
            self.settings,
            self._timekeeper,
            memory,
            self.processes,
            lambda: self._rng.randrange(2**31),
        )
        self._client: CandidateClient | None = None
        self._client_problem: TorchProblem | None = None
        self._ahead: Path | None = None  # the cache folder of the client's compilation ahead

    def start(self) -> None:
        """Start the processes before there is something to evaluate; returns before they are ready."""
        self.processes.start()

    def beside(self, settings: Settings | None = None) -> LocalEvaluator:
        """Return an evaluator, by default with the same settings, that uses this one's processes.

        So neither libraries are imported nor references drawn a second time, and both find what the other compiled.
        """
        return LocalEvaluator(self.device, settings or self.settings, self._memory, self._rng, self.processes)

    def prepare(self, problem: Problem, kernel: Kernel) -> None:
        """Start the problem's reference, and the kernel's worker on a GPU; several may be prepared at once."""
        problem = TorchProblem.of(problem)
        if self.settings.search is None and is_timed(kernel, self.device) and not self.settings.compile_ahead:
            self.processes.start_spare(problem)  # it opens the GPU while the reference does
        self._reference_for(problem, kernel)

    def evaluate(
        self, problem: Problem, kernel: Kernel, configs: Iterable[Config], known: Sequence[Evaluation] = ()
    ) -> Generator[Evaluation]:
        """One evaluation per config, in order; see `core.Evaluator`."""
        problem = TorchProblem.of(problem)
        if (broken := self._broken_rule(problem, kernel)) is not None:
            yield from (rejected_evaluation(kernel, config, broken, self.settings.precision) for config in configs)
            return
        self.prepare(problem, kernel)
        if self.settings.search is not None and is_timed(kernel, self.device):
            pairs = ((kernel, config) for config in configs)
            yield from self._search(self.settings.search, problem, kernel, pairs, known)
            return
        for config in configs:
            # The current reference client: a server that the last config took down took its worker too.
            yield self._evaluate_in_full(self._reference_for(problem, kernel), kernel, config)

    def screen(self, problem: Problem, kernels: Sequence[Kernel]) -> Generator[Evaluation]:
        """Evaluate different kernels as configs in a search, in one process; see `core.Screener`."""
        problem = TorchProblem.of(problem)
        search = self.settings.search
        if search is None or not kernels or not all(is_timed(kernel, self.device) for kernel in kernels):
            for kernel in kernels:
                yield from self.evaluate(problem, kernel, [Config()])
            return
        allowed = [kernel for kernel in kernels if self._broken_rule(problem, kernel) is None]
        # Nothing is chosen by what is measured, so all may be compiled at once.
        search = replace(search, compilers=max(1, min(cores(), len(allowed))), window=max(1, len(allowed)))
        pairs = ((kernel, Config()) for kernel in allowed)
        # Closed here, not when it is collected: there an interruption would be ignored.
        with contextlib.closing(self._search(search, problem, kernels[0], pairs, ())) as measured:
            for kernel in kernels:
                if (broken := self._broken_rule(problem, kernel)) is not None:
                    yield rejected_evaluation(kernel, Config(), broken, self.settings.precision)
                else:
                    yield next(measured)

    def compare(self, problem: Problem, kernel: Kernel, configs: Sequence[Config]) -> list[Evaluation]:
        """One evaluation per config, all timed interleaved; see `core.Evaluator`."""
        problem = TorchProblem.of(problem)
        if (broken := self._broken_rule(problem, kernel)) is not None:
            return [rejected_evaluation(kernel, config, broken, self.settings.precision) for config in configs]
        reference_client = self._reference_for(problem, kernel)
        self.forget_candidate()
        cache = self.processes.cache(kernel)
        client = self._new_client(problem, kernel, cache)
        try:
            client.start()
            if is_timed(kernel, self.device):
                with self.processes.compilers(problem, cache, min(len(configs), cores())) as pool:
                    for future in [pool.submit(kernel.bind(config).source) for config in configs]:
                        future.result()
            # The names of torch's operators are the process's: a second config would replace the first one's.
            together = not registers_operators(kernel.source)
            with self._exclusive(reference_client), contextlib.suppress(ProblemError):
                if together:
                    return self._examiner.several(reference_client, client, configs)
        finally:
            client.close()
        # Together they may also leave the reference too little memory. Evaluating one alone shows whether that was the
        # cause.
        return [self._evaluate_in_full(self._reference_for(problem, kernel), kernel, config) for config in configs]

    def profile(self, problem: Problem) -> Profile:
        """Counted work of the reference, measured ceilings and known limits of the device."""
        reference_client = self.processes.reference_client(TorchProblem.of(problem))
        with self._exclusive(reference_client):
            return profile(
                reference_client, self.device, self._memory, (*self.processes.server_pids, reference_client.pid)
            )

    def time_reference(self, problem: Problem) -> InterleavedTimes:
        """Time the reference without a candidate, interleaved with the baselines of the settings."""
        reference_client = self.processes.reference_client(TorchProblem.of(problem))
        seeds = partial(iter, lambda: self._rng.randrange(2**31), None)
        with self._exclusive(reference_client):
            return self._timekeeper.time(reference_client, [], reference_client.pid, seeds, self.settings.sampling)

    def plan(self, problem: Problem, kernel: Kernel, save: Path | None = None) -> tuple[Evaluation, LaunchPlan | None]:
        """Check a kernel without timing it; return its launch plan where it has one, written to `save`."""
        problem = TorchProblem.of(problem)
        if (broken := self._broken_rule(problem, kernel)) is not None:
            return rejected_evaluation(kernel, Config(), broken, self.settings.precision), None
        reference_client = self._reference_for(problem, kernel)
        client = self._new_client(problem, kernel)
        with contextlib.closing(client), self._exclusive(reference_client):
            return self._examiner.plan(reference_client, client, save)

    def generated_code(self, problem: Problem) -> GeneratedCode | str:
        """Return the Triton code that torch's compiler makes of the reference, or why it makes none.

        Takes 5 to 60 s on a GPU: its templates' configs are measured.
        """
        reference_client = self.processes.reference_client(TorchProblem.of(problem))
        with self._exclusive(reference_client):
            return reference_client.generate()

    def environment(self, problem: Problem) -> dict[str, str]:
        """Device and versions, as every evaluation records them."""
        return dict(self.processes.reference_client(TorchProblem.of(problem)).environment)

    def forget_candidate(self) -> None:
        """End the candidate's process, and remove its compiled files."""
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._ahead is not None:
            shutil.rmtree(self._ahead, ignore_errors=True)
            self._ahead = None

    def _reference_for(self, problem: TorchProblem, kernel: Kernel) -> ReferenceClient:
        if not kernel.runs_on(Target.of_device(self.device)):
            raise KernelError(f"{kernel.name} is written for {kernel.target}; it cannot run on {self.device}")
        self.processes.require(kernel.language.modules[0])
        reference_client = self.processes.reference_client(problem)
        reference_client.environment["sandbox"] = self.processes.sandbox_used
        return reference_client

    def _broken_rule(self, problem: TorchProblem, kernel: Kernel) -> Rejection | None:
        """Return the rule that the source breaks; None where everything is allowed."""
        return find_violation(kernel.source, kernel, self.settings.allow_torch, problem.withheld)

    def _exclusive(self, reference_client: ReferenceClient) -> contextlib.AbstractContextManager[None]:
        return DeviceLock(reference_client.environment.get("uuid", self.device)).held()

    def _evaluate_in_full(self, reference_client: ReferenceClient, kernel: Kernel, config: Config) -> Evaluation:
        try:
            client = self._client_for(reference_client.problem, kernel, config)
            ahead = self._compile_ahead(reference_client, kernel, config)
            if ahead is not None and ahead.status is CompileStatus.TIMEOUT:
                return compile_failure(reference_client, kernel, config, ahead)
            with self._exclusive(reference_client):
                found = self._evaluate(reference_client, client, config, ahead)
            if found.speedup is None or found.speedup.ratio <= SUSPICIOUS_SPEEDUP:
                return found
            self.forget_candidate()
            client = self._client_for(reference_client.problem, kernel, config)
            with self._exclusive(reference_client):
                again = self._evaluate(reference_client, client, config, ahead)
            if again.speedup is None or again.speedup.ratio <= SUSPICIOUS_SPEEDUP:
                return again  # the slower of two times that differ
            message = CONFIRMED.format(SUSPICIOUS_SPEEDUP) if again.contention is None else again.message
            return again.model_copy(update={"message": message})
        finally:
            if not config:
                self.forget_candidate()

    def _client_for(self, problem: TorchProblem, kernel: Kernel, config: Config) -> CandidateClient:
        """Return the last call's client when a search continues with the same kernel, else a new one.

        A kernel with nothing to bind always gets a fresh process: this is how a winner is checked for the last time.
        """
        known = self._client is not None and self._client.alive and (self._client_problem, self._client.kernel)
        if self._client is None or not config or known != (problem, kernel):
            self.forget_candidate()
            if self.device != "cpu" and self.settings.compile_ahead:
                self._ahead = self.processes.new_folder("ahead")
            self._client, self._client_problem = self._new_client(problem, kernel, self._ahead), problem
        return self._client

    def _compile_ahead(self, reference_client: ReferenceClient, kernel: Kernel, config: Config) -> CompileResult | None:
        """Compile for the client before the device is locked, where the settings request it.

        Never on a CPU, where compilers would disturb timings. A kernel that a compiler refuses is compiled again for
        its log.
        """
        if self._ahead is None:
            return None
        with self.processes.compilers(reference_client.problem, self._ahead, 1) as pool:
            return pool.submit(kernel.bind(config).source).result()

    def _new_client(self, problem: TorchProblem, kernel: Kernel, cache: Path | None = None) -> CandidateClient:
        new_worker = self.processes.candidate(problem, cache)
        share = self.device != "cpu" and self.processes.shares_memory
        return CandidateClient(kernel, self.settings.limits, new_worker, share)

    def _search(
        self,
        search: SearchSettings,
        problem: TorchProblem,
        first: Kernel,
        pairs: Iterable[tuple[Kernel, Config]],
        earlier: Sequence[Evaluation],
    ) -> Generator[Evaluation]:
        """Compile ahead in parallel; measure compiled configs one at a time, and equal code once.

        All kernels are measured in one process, with the cache of the `first`.
        """
        reference_client = self._reference_for(problem, first)
        cache = self.processes.cache(first)
        client = self._new_client(problem, first, cache)
        known = {e.code_digest: e for e in earlier if e.code_digest is not None and e.duplicate_of is None}
        best_ms = min((e.latency_ms for e in earlier if e.latency_ms is not None), default=math.inf)
        with contextlib.closing(client):
            client.start()
            with self.processes.compilers(problem, cache, search.compilers) as pool:
                ahead = compiled_ahead(
                    pairs,
                    submit=lambda pair: pool.submit(pair[0].bind(pair[1]).source),
                    window=search.window,
                    together=self.device == "cpu",
                )
                for (kernel, config), compiled in ahead:
                    client.kernel = kernel
                    if compiled.digest in known:
                        yield duplicate_evaluation(known[compiled.digest], kernel, config)
                        continue
                    if compiled.is_verdict:
                        yield compile_failure(reference_client, kernel, config, compiled)
                        continue
                    reference_client = self._reference_for(problem, kernel)
                    with self._exclusive(reference_client):
                        evaluation = self._evaluate(
                            reference_client, client, config, compiled, search.prune_factor * best_ms
                        )
                    best_ms = min(best_ms, evaluation.latency_ms or math.inf)
                    if compiled.digest is not None:
                        known[compiled.digest] = evaluation
                    yield evaluation

    def _evaluate(
        self,
        reference_client: ReferenceClient,
        client: CandidateClient,
        config: Config,
        compiled: CompileResult | None = None,
        prune_above_ms: float | None = None,
    ) -> Evaluation:
        """Try again with both workers restarted where the reference failed; a second failure is the candidate's fault.

        A candidate may leave too little memory for the reference. Raises `ProblemError` where the reference also fails
        without a candidate.
        """
        for again in (False, True):
            try:
                return self._examiner.one(reference_client, client, config, compiled, prune_above_ms)
            except ProblemError as error:
                client.close()
                reference_client = self._reference_for(reference_client.problem, client.kernel)
                if again:
                    reference_client.rehearse()
                    failure = Failure(Status.RUNTIME_ERROR, BESIDE.format(error))
        return failed_evaluation(reference_client, client, config, failure)

    def close(self) -> None:
        """End all processes and remove their folders; of another evaluator's processes only the candidate's."""
        self.forget_candidate()
        if self._owns_processes:
            self.processes.close()

    def __enter__(self) -> LocalEvaluator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
