"""The evaluator of this machine: its CPU, or one of its CUDA GPUs.

Three kinds of processes take part, all forked from a warm server: the candidate's worker runs the kernel and
nothing else; the judge's worker runs the reference and compares; compilers work ahead in a search. This process
carries seeds, file names and verdicts between them and computes every statistic itself.
"""

from __future__ import annotations

import contextlib
import math
import random
import shutil
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path

from ..core import (
    Config,
    Evaluation,
    Kernel,
    KernelError,
    Language,
    Problem,
    ProblemError,
    Profile,
    Rejection,
    Status,
    Target,
)
from .bench import Bench
from .compiling import Compiled, CompileStatus
from .device_lock import DeviceLock
from .examiner import Examiner, is_timed
from .findings import Failure
from .guards.source import find_violation
from .judging import Judge
from .limits import SearchSettings, Settings
from .pipeline import compiled_ahead
from .processes import Processes, cores
from .profiling import profile
from .timekeeping import Timekeeper
from .verdicts import failed_evaluation, refused, rejected_evaluation, twin

QUARANTINE = 10.0
"""What is so many times as fast as the reference is measured once more, from the beginning, before it is believed."""
CONFIRMED = "more than {:g} times as fast as the reference: measured twice, in two processes"
BESIDE = "beside this kernel, and not without it, {}; leave the reference memory and room on the disk"


class LocalEvaluator:
    """Evaluates on `device`, 'cpu' or 'cuda' or 'cuda:1'.

    `memory` is a folder for what is measured once per device (its ceilings). Seeds come from `rng`,
    by default from the system's entropy, and are written down in the evaluations.
    """

    def __init__(
        self,
        device: str = "cpu",
        settings: Settings | None = None,
        memory: Path | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.device = device
        self.settings = settings or Settings()
        self.processes = Processes(device, self.settings.limits, self.settings.sandbox, memory)
        self._memory = memory
        self._rng = rng or random.SystemRandom()
        timekeeper = Timekeeper(device, self.settings, self.processes, memory)
        self._examiner = Examiner(device, self.settings, timekeeper, memory, lambda: self._rng.randrange(2**31))
        self._bench: Bench | None = None
        self._benched: Problem | None = None
        self._ahead: Path | None = None  # the folder for what is compiled ahead for the bench

    def evaluate(
        self, problem: Problem, kernel: Kernel, configs: Iterable[Config], known: Sequence[Evaluation] = ()
    ) -> Generator[Evaluation]:
        """One evaluation per config, in order; see `core.Evaluator`."""
        if (broken := self._broken_rule(kernel)) is not None:
            yield from (rejected_evaluation(kernel, config, broken) for config in configs)
            return
        judge = self._judge_for(problem, kernel)
        search = self.settings.search
        if search is not None and is_timed(kernel, self.device):
            yield from self._search(search, judge, kernel, configs, known)
            return
        for config in configs:
            # The judge of now: with the server that the last config took down, its judge went.
            yield self._evaluate_in_full(self._judge_for(problem, kernel), kernel, config)

    def compare(self, problem: Problem, kernel: Kernel, configs: Sequence[Config]) -> list[Evaluation]:
        """One evaluation per config, all timed in turn with each other; see `core.Evaluator`."""
        if (broken := self._broken_rule(kernel)) is not None:
            return [rejected_evaluation(kernel, config, broken) for config in configs]
        judge = self._judge_for(problem, kernel)
        self.forget_bench()
        cache = self.processes.cache(kernel)
        bench = self._new_bench(problem, kernel, cache)
        try:
            bench.start()
            if is_timed(kernel, self.device):
                with self.processes.compilers(problem, cache, min(len(configs), cores())) as pool:
                    for future in [pool.submit(kernel.bind(config).source) for config in configs]:
                        future.result()
            with self._exclusive(judge), contextlib.suppress(ProblemError):
                return self._examiner.several(judge, bench, configs)
        finally:
            bench.close()
        # Side by side they may leave the reference too little of the machine. One alone says whether it was that.
        return [self._evaluate_in_full(self._judge_for(problem, kernel), kernel, config) for config in configs]

    def profile(self, problem: Problem) -> Profile:
        """Counted work of the reference, measured ceilings and known limits of the device."""
        judge = self.processes.judge(problem)
        with self._exclusive(judge):
            return profile(judge, self.device, self._memory, (*self.processes.server_pids, judge.pid))

    def environment(self, problem: Problem) -> dict[str, str]:
        """Device and versions, as every evaluation records them."""
        return dict(self.processes.judge(problem).environment)

    def forget_bench(self) -> None:
        """End the candidate's process, and remove what was compiled ahead for it."""
        if self._bench is not None:
            self._bench.close()
            self._bench = None
        if self._ahead is not None:
            shutil.rmtree(self._ahead, ignore_errors=True)
            self._ahead = None

    def _judge_for(self, problem: Problem, kernel: Kernel) -> Judge:
        if (kernel.target is Target.CPU) != (self.device == "cpu") and kernel.language is not Language.TRITON:
            raise KernelError(f"{kernel.name} is written for {kernel.target}; it cannot run on {self.device}")
        self.processes.require(kernel.language)
        judge = self.processes.judge(problem)
        judge.environment["sandbox"] = self.processes.sandbox_used
        return judge

    def _broken_rule(self, kernel: Kernel) -> Rejection | None:
        """What the source alone says against it; nothing is looked at where everything is allowed."""
        return find_violation(kernel.source, kernel, self.settings.allow_torch)

    def _exclusive(self, judge: Judge) -> contextlib.AbstractContextManager[None]:
        return DeviceLock(judge.environment.get("uuid", self.device)).held()

    def _evaluate_in_full(self, judge: Judge, kernel: Kernel, config: Config) -> Evaluation:
        try:
            bench = self._bench_for(judge.problem, kernel, config)
            ahead = self._compile_ahead(judge, kernel, config)
            if ahead is not None and ahead.status is CompileStatus.TIMEOUT:
                return refused(judge, kernel, config, ahead)
            with self._exclusive(judge):
                found = self._evaluate(judge, bench, config, ahead)
            if found.speedup is None or found.speedup.ratio <= QUARANTINE:
                return found
            self.forget_bench()
            bench = self._bench_for(judge.problem, kernel, config)
            with self._exclusive(judge):
                again = self._evaluate(judge, bench, config, ahead)
            if again.speedup is None or again.speedup.ratio <= QUARANTINE:
                return again  # the slower of two times that lie apart
            told = CONFIRMED.format(QUARANTINE) if again.contention is None else again.message
            return again.model_copy(update={"message": told})
        finally:
            if not config:
                self.forget_bench()

    def _bench_for(self, problem: Problem, kernel: Kernel, config: Config) -> Bench:
        """The bench of the last call when a search goes on with the same kernel, else a new one.

        A kernel with nothing to bind always gets a fresh process: so is a winner checked for the last time.
        """
        known = self._bench is not None and self._bench.alive and (self._benched, self._bench.kernel)
        if self._bench is None or not config or known != (problem, kernel):
            self.forget_bench()
            if self.device != "cpu" and self.settings.compile_ahead:
                self._ahead = self.processes.new_folder("ahead")
            self._bench, self._benched = self._new_bench(problem, kernel, self._ahead), problem
        return self._bench

    def _compile_ahead(self, judge: Judge, kernel: Kernel, config: Config) -> Compiled | None:
        """Compile for the bench before the device is locked, where the settings ask for it.

        Never on a CPU, where compilers would disturb what is being timed. What a compiler refuses is compiled again
        for its log.
        """
        if self._ahead is None:
            return None
        with self.processes.compilers(judge.problem, self._ahead, 1) as pool:
            return pool.submit(kernel.bind(config).source).result()

    def _new_bench(self, problem: Problem, kernel: Kernel, cache: Path | None = None) -> Bench:
        new_worker = self.processes.candidate(problem, cache)
        share = self.device != "cpu" and self.processes.shares_memory
        return Bench(kernel, self.settings.limits, new_worker, share)

    def _search(
        self,
        search: SearchSettings,
        judge: Judge,
        kernel: Kernel,
        configs: Iterable[Config],
        earlier: Sequence[Evaluation],
    ) -> Generator[Evaluation]:
        """Compile ahead in parallel; measure one at a time what compiled, and equal code once."""
        cache = self.processes.cache(kernel)
        bench = self._new_bench(judge.problem, kernel, cache)
        known = {e.code_digest: e for e in earlier if e.code_digest is not None and e.duplicate_of is None}
        best_ms = min((e.latency_ms for e in earlier if e.latency_ms is not None), default=math.inf)
        with contextlib.closing(bench):
            bench.start()
            with self.processes.compilers(judge.problem, cache, search.compilers) as pool:
                ahead = compiled_ahead(
                    configs,
                    submit=lambda config: pool.submit(kernel.bind(config).source),
                    window=search.window,
                    together=self.device == "cpu",
                )
                for config, compiled in ahead:
                    if compiled.digest in known:
                        yield twin(known[compiled.digest], config)
                        continue
                    if compiled.is_verdict:
                        yield refused(judge, kernel, config, compiled)
                        continue
                    judge = self._judge_for(judge.problem, kernel)
                    with self._exclusive(judge):
                        evaluation = self._evaluate(judge, bench, config, compiled, search.hopeless * best_ms)
                    best_ms = min(best_ms, evaluation.latency_ms or math.inf)
                    if compiled.digest is not None:
                        known[compiled.digest] = evaluation
                    yield evaluation

    def _evaluate(
        self,
        judge: Judge,
        bench: Bench,
        config: Config,
        compiled: Compiled | None = None,
        hopeless_ms: float | None = None,
    ) -> Evaluation:
        """Once more, with both started anew, where the reference failed; the second time it is the candidate's doing.

        A candidate may leave too little of the machine for the reference. Raises `ProblemError` where the reference
        fails without a candidate too.
        """
        for again in (False, True):
            try:
                return self._examiner.one(judge, bench, config, compiled, hopeless_ms)
            except ProblemError as error:
                bench.close()
                judge = self._judge_for(judge.problem, bench.kernel)
                if again:
                    judge.rehearse()
                    failure = Failure(Status.RUNTIME_ERROR, BESIDE.format(error))
        return failed_evaluation(judge, bench, config, failure)

    def close(self) -> None:
        """End all processes and remove their folders."""
        self.forget_bench()
        self.processes.close()

    def __enter__(self) -> LocalEvaluator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
