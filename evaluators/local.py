"""The evaluator of this machine: its CPU, or one of its CUDA GPUs.

Three kinds of processes take part, all forked from a fork server: the candidate's worker runs the kernel and nothing
else; the reference worker runs the reference and compares; compilers work ahead in a search. This process passes
seeds, file names and results between them and computes every statistic itself.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ..core import Config, Evaluation, JointProblem, Kernel, Problem, ProblemError, Profile, Rejection, TorchProblem
from ..core.environment import cores
from ..core.generated_code import GeneratedCode
from ..core.launch_plan import LaunchPlan
from ..core.operator_graph import OperatorGraph
from .contest import Contest, ContestPipeline
from .guards.own_kernels import registers_operators
from .guards.source import find_violation, find_violations
from .pipeline.candidate_runner import CandidateRunner
from .pipeline.evaluation import is_timed
from .pipeline.interleaved_timer import InterleavedTimer, InterleavedTimes
from .pipeline.kept_processes import KeptProcesses
from .pipeline.lost_servers import Pair, with_new_servers
from .pipeline.processes import Processes
from .pipeline.search import searched
from .pipeline.servers import languages_of
from .pipeline.verdicts import compile_failure, rejected_evaluation
from .reference.generated_codes import GeneratedCodes
from .reference.roofline import profile
from .settings import Lowering, Settings
from .waiting import WatchedAccess, WorkingClock
from .workers.client import ServerEndedError


class LocalEvaluator:
    """Evaluates on `device`, 'cpu' or 'cuda' or 'cuda:1'.

    `memory` is a folder for once-per-device measurements (its ceilings). Seeds come from `rng`, by default from the
    system's entropy, and are recorded in the evaluations. `processes` are another evaluator's, which ends them; those
    of `kept` go back there.
    """

    def __init__(
        self,
        device: str = "cpu",
        settings: Settings | None = None,
        memory: Path | None = None,
        rng: random.Random | None = None,
        processes: Processes | None = None,
        clock: WorkingClock | None = None,
        kept: KeptProcesses | None = None,
    ) -> None:
        self.device = device
        self.clock = clock or WorkingClock()
        """Stands still while the device is waited for; evaluators of one command share it."""
        self.settings = settings or Settings()
        new_processes = Processes if kept is None else kept.take
        self.processes = processes or new_processes(
            device, self.settings.limits, self.settings.sandbox, memory, self.settings.precision
        )
        self._owns_processes = processes is None
        self._kept = kept
        self._memory = memory
        self._rng = rng or random.SystemRandom()
        self._timer = InterleavedTimer(device, self.settings, self.processes, memory)
        access = WatchedAccess(device, self.clock)
        self._contest = ContestPipeline(
            device, self.settings, self._timer, memory, self.processes, lambda: self._rng.randrange(2**31), access
        )
        self._runner = CandidateRunner(device, self.settings, self.processes, self._contest, access)

    def start(self) -> None:
        """Start the processes before there is something to evaluate; returns before they are ready."""
        self.processes.start()
        if self.settings.search is not None or self.device != "cpu":
            self.processes.start_compilers()

    def beside(self, settings: Settings | None = None) -> LocalEvaluator:
        """Return an evaluator, by default with the same settings, that uses this one's processes.

        So neither libraries are imported nor references drawn a second time, and both find what the other compiled.
        """
        return LocalEvaluator(
            self.device, settings or self.settings, self._memory, self._rng, self.processes, self.clock
        )

    def prepare(self, problem: Problem, kernel: Kernel) -> None:
        """Start the problem's reference; several may be prepared at once."""
        problem = TorchProblem.of(problem)
        self.start()
        self._runner.reference_for(problem, kernel)

    def evaluate(
        self, problem: Problem, kernel: Kernel, configs: Iterable[Config], known: Sequence[Evaluation] = ()
    ) -> Generator[Evaluation]:
        """One evaluation per config, in order; see `core.Evaluator`."""
        found = self._evaluated(TorchProblem.of(problem), kernel, configs, known)
        with contextlib.closing(found):
            yield from map(self._told, found)

    def _evaluated(
        self, problem: TorchProblem, kernel: Kernel, configs: Iterable[Config], known: Sequence[Evaluation]
    ) -> Generator[Evaluation]:
        if (broken := self._broken_rule(problem, kernel)) is not None:
            yield from (rejected_evaluation(kernel, config, broken, self.settings.precision) for config in configs)
            return
        pairs = ((kernel, config) for config in configs)
        if (search := self.settings.search) is None or not is_timed(kernel, self.device):
            yield from self._in_full(problem, pairs)
            return

        def measured(left: Iterator[Pair]) -> Generator[Evaluation]:
            self.prepare(problem, kernel)
            yield from searched(self._runner, search, problem, kernel, left, known)

        yield from self._with_new_servers(measured, pairs)

    def _in_full(self, problem: TorchProblem, pairs: Iterable[Pair], compared: bool = False) -> Generator[Evaluation]:
        """Evaluate one after another: each for itself, or in the comparison that has begun."""

        def measured(left: Iterator[Pair]) -> Generator[Evaluation]:
            for kernel, config in left:
                if not compared:
                    self.processes.begin_evaluation()
                self.prepare(problem, kernel)
                yield self._runner.evaluate_in_full(problem, kernel, config)

        yield from self._with_new_servers(measured, pairs)

    def _with_new_servers(
        self, measured: Callable[[Iterator[Pair]], Generator[Evaluation]], pairs: Iterable[Pair]
    ) -> Generator[Evaluation]:
        yield from with_new_servers(measured, pairs, self.forget_candidate, self.settings.precision)

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

        def measured(left: Iterator[Pair]) -> Generator[Evaluation]:
            for kernel in allowed:
                self.processes.servers.load(languages_of(kernel))
            yield from searched(self._runner, search, problem, kernels[0], left, ())

        # Closed here, not when it is collected: there an interruption would be ignored.
        with contextlib.closing(self._with_new_servers(measured, pairs)) as found:
            for kernel in kernels:
                if (broken := self._broken_rule(problem, kernel)) is not None:
                    yield rejected_evaluation(kernel, Config(), broken, self.settings.precision)
                else:
                    yield next(found)

    def compare(self, problem: Problem, kernel: Kernel, configs: Sequence[Config]) -> list[Evaluation]:
        """One evaluation per config, all timed interleaved; see `core.Evaluator`."""
        return [self._told(item) for item in self._compared(TorchProblem.of(problem), kernel, configs)]

    def _compared(self, problem: TorchProblem, kernel: Kernel, configs: Sequence[Config]) -> list[Evaluation]:
        if (broken := self._broken_rule(problem, kernel)) is not None:
            return [rejected_evaluation(kernel, config, broken, self.settings.precision) for config in configs]
        self.processes.begin_evaluation()
        found = None
        with contextlib.suppress(ServerEndedError):
            found = self._interleaved(problem, kernel, configs)
        # Together they may also leave the reference too little memory. Evaluating one alone shows whether that was the
        # cause.
        return found or list(self._in_full(problem, ((kernel, config) for config in configs), compared=True))

    def _interleaved(self, problem: TorchProblem, kernel: Kernel, configs: Sequence[Config]) -> list[Evaluation] | None:
        """Evaluate in one process, if all can be; else return None."""
        self.processes.start_compilers()
        reference_client = self._runner.reference_for(problem, kernel)
        self.forget_candidate()
        cache = self.processes.cache(kernel)
        client = self._runner.new_client(problem, kernel, cache)
        try:
            client.start()
            if is_timed(kernel, self.device):
                with self.processes.compilers(problem, cache, min(len(configs), cores())) as pool:
                    for future in [pool.submit(kernel.bind(config).source) for config in configs]:
                        future.result()
            self._timer.compile_ahead(reference_client)
            client.open()
            self.processes.replay_workers.expect()
            # The names of torch's operators are the process's: a second config would replace the first one's.
            together = not registers_operators(kernel.source)
            for take in (self._runner.shared, self._runner.exclusive) if together else ():
                with take(reference_client), contextlib.suppress(ProblemError):
                    found = self._runner.pipeline.several(reference_client, client, configs)
                    lost = not all(item.measured for item in found)
                    if not lost and not self._runner.may_lack_memory(reference_client.problem, found):
                        return found
        finally:
            client.close()
        return None

    def contest(self, problem: Problem, kernels: Sequence[Kernel]) -> list[Evaluation]:
        """One evaluation per kernel, all timed interleaved; see `core.Judge`."""
        self.processes.begin_evaluation()
        in_full = partial(self._in_full, compared=True)
        contest = Contest(self._contest, self._runner, self.settings.precision, self._broken_rule, in_full)
        return [self._told(item) for item in contest.evaluations(TorchProblem.of(problem), kernels)]

    def profile(self, problem: Problem) -> Profile:
        """Counted work of the reference, measured ceilings and known limits of the device."""
        self.processes.start()
        reference_client = self.processes.reference_client(TorchProblem.of(problem))
        with self._runner.exclusive(reference_client):
            ours = (*self.processes.server_pids, reference_client.pid)
            heeds_load = self.settings.sampling.heeds_load
            return profile(reference_client, self.device, self._memory, ours, heeds_load)

    def time_reference(self, problem: Problem) -> InterleavedTimes:
        """Time the reference without a candidate, interleaved with the baselines of the settings."""
        reference_client = self.processes.reference_client(TorchProblem.of(problem))
        self._timer.compile_ahead(reference_client)
        seeds = partial(iter, lambda: self._rng.randrange(2**31), None)
        with self._runner.exclusive(reference_client):
            return self._timer.time(reference_client, [], reference_client.pid, seeds, self.settings.sampling)

    def plan(self, problem: Problem, kernel: Kernel, save: Path | None = None) -> tuple[Evaluation, LaunchPlan | None]:
        """Check a kernel without timing it; return its launch plan where it has one, written to `save`."""
        problem = TorchProblem.of(problem)
        if (broken := self._broken_rule(problem, kernel)) is not None:
            return rejected_evaluation(kernel, Config(), broken, self.settings.precision), None
        self.processes.begin_evaluation()
        try:
            reference_client, client, compiled = self._runner.prepared(problem, kernel, Config())
            if compiled is not None and compiled.refused:
                return compile_failure(reference_client, kernel, Config(), compiled), None
            with self._runner.exclusive(reference_client):
                return self._runner.pipeline.plan(reference_client, client, save, compiled)
        finally:
            self.forget_candidate()

    def generated_code(self, problem: Problem, lowering: Lowering | None = None) -> GeneratedCode | str:
        """Return the Triton code that torch's compiler makes of the reference, or why it makes none.

        Takes 5 to 60 s on a GPU, where its templates' configs are measured, and is kept for the next time. By default
        the settings say what of it the library computes.
        """
        reference_client = self.processes.reference_client(TorchProblem.of(problem))
        lowering = lowering or self.settings.lowering(problem)
        codes, environment = GeneratedCodes(self._memory, lowering), reference_client.environment
        known = codes.get(reference_client.problem, environment)
        if known is not None:
            return known
        if self.device != "cpu":  # there the compiler would disturb what others measure
            reference_client.generate_ahead(lowering)
        with self._runner.exclusive(reference_client):
            found = reference_client.generate(lowering)
        if isinstance(found, GeneratedCode):
            codes.put(reference_client.problem, environment, found)
        return found

    def operator_graph(self, problem: Problem) -> OperatorGraph | str:
        """Return the reference's graph of operators, or why torch.export makes none."""
        reference_client = self.processes.reference_client(TorchProblem.of(problem))
        with self._runner.exclusive(reference_client):
            return reference_client.operator_graph(problem.free if isinstance(problem, JointProblem) else None)

    def environment(self, problem: Problem) -> dict[str, str]:
        """Device and versions, as every evaluation records them."""
        return dict(self.processes.reference_client(TorchProblem.of(problem)).environment)

    def forget_candidate(self) -> None:
        """End the candidate's process, and remove its compiled files."""
        self._runner.forget_candidate()

    def _told(self, evaluation: Evaluation) -> Evaluation:
        """Return an evaluation with its status by the settings: what is not replayed may be accepted."""
        return evaluation if self.settings.require_replay else evaluation.accepted()

    def _broken_rule(self, problem: TorchProblem, kernel: Kernel) -> Rejection | None:
        """Return the rule that the source breaks; None where everything is allowed.

        What a user's own files do is theirs to decide: only what a candidate adds counts.
        """
        allow, package = self.settings.torch_for(problem), problem.package
        own = [] if package is None else find_violations(package.source, kernel, allow)
        return find_violation(kernel.source, kernel, allow, {item.why for item in own})

    def close(self) -> None:
        """End all processes and remove their folders; of processes that others use too only the candidate's."""
        self._close(usable=True)

    def _close(self, usable: bool) -> None:
        self.forget_candidate()
        if not self._owns_processes:
            return
        self._owns_processes = False
        if self._kept is None:
            self.processes.close()
        else:
            self._kept.give_back(self.processes, usable)

    def __enter__(self) -> LocalEvaluator:
        return self

    def __exit__(self, raised: type[BaseException] | None, *_: object) -> None:
        self._close(usable=raised is None)
