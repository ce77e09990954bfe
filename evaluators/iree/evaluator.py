"""The evaluator of MLIR modules, which IREE compiles, and which are compared with IREE's default module."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...core import (
    Config,
    DeviceError,
    Evaluation,
    Kernel,
    MlirProblem,
    Problem,
    Profile,
    Status,
)
from ...core.files import cache_folder
from ..compilation.ahead import compiled_ahead
from ..compilation.pool import VERDICTS
from ..pipeline.evaluation import PRUNED
from ..settings import Sampling, SearchSettings, Settings
from ..timing.quiet import QuietTimer
from ..timing.sampling import Timing
from ..workers.channel import Message
from ..workers.device_lock import DeviceLock
from ..workers.shortages import ATTEMPTS
from .compiler import CompiledModule
from .environment import environment
from .module_runner import ModuleRunner
from .process import ModuleFailedError
from .processes import IreeProcesses
from .target import IreeTarget
from .verdicts import at_speed_of, correct, judged, timed
from .worker import DEFAULT

CANDIDATE = "candidate"
QUICK_ON_CPU = Sampling(0.005, seconds=0.3, min_samples=1000, max_samples=2000, chunk_s=0.005, quiet_timeout_s=0)
"""Many samples of fast modules: on a processor that others use they take turns between two speeds, tens of milliseconds
each. No timing waits for a quiet machine: the default module is timed with each candidate, and is disturbed alike."""
QUICK_ON_GPU = Sampling(0.01, seconds=0.2, min_samples=20, max_samples=300, chunk_s=0.01, quiet_timeout_s=0)
FINALS = Sampling(0.003, seconds=2.0, min_samples=2000, max_samples=6000, chunk_s=0.01)


def search_settings(on_cpu: bool, compilers: int = 1) -> SearchSettings:
    """Return how the modules of a search are timed, with this many processes that compile ahead."""
    quick = QUICK_ON_CPU if on_cpu else QUICK_ON_GPU
    return SearchSettings(compilers=compilers, window=compilers, prune_factor=3.0, sampling=quick)


class IreeEvaluator:
    """Speaks the `Evaluator` protocol for problems and kernels that are MLIR modules.

    Every candidate is compared with NumPy and with the default module, and timed interleaved with the latter, which is
    the reference of all speedups. On a CPU, compiling and measuring take turns.
    """

    def __init__(
        self,
        device: str = "cpu",
        chip: str = "",
        settings: Settings | None = None,
        memory: Path | None = None,
        label: str = "",
        release: str = "",
        processes: IreeProcesses | None = None,
    ) -> None:
        """`memory` is a folder that keeps compiled modules, `release` the compiler's version of those (see
        `IreeCompiler`), `label` the device's name in records. Modules are compiled and run in `processes`, which the
        caller closes, by default in the evaluator's own."""
        self.settings = settings or Settings(sampling=FINALS)
        self.target = IreeTarget(device, chip)
        self._search = self.settings.search or search_settings(self.target.on_cpu)
        limits = self.settings.limits
        self._processes = processes or IreeProcesses(device, limits, self.settings.sandbox)
        self._close_processes = processes is None
        self.environment = environment(self.target, label, release, self._processes.sandbox_used)
        folder = memory or cache_folder() / "iree"
        self._compilers = {
            "folder": folder, "count": self._search.compilers, "seconds": limits.compile_s, "release": release,
        }  # fmt: skip
        self._rng = random.Random()
        self._timer = QuietTimer(self.target.on_cpu)
        self._runner: ModuleRunner | None = None

    def evaluate(
        self, problem: Problem, kernel: Kernel, configs: Iterable[Config], known: Sequence[Evaluation] = ()
    ) -> Generator[Evaluation]:
        """One evaluation per config, in order, each timed interleaved with the default module; see `core.Evaluator`."""
        runner = self._runner_of(MlirProblem.of(problem))
        measured = {e.code_digest: e for e in known if e.code_digest and e.duplicate_of is None and e.measured}
        best_ms = min((e.latency_ms for e in known if e.latency_ms is not None), default=math.inf)
        runner.default_ms = next((e.reference.median_ms for e in known if e.reference), runner.default_ms)
        ahead = compiled_ahead(
            configs,
            submit=lambda config: runner.compiler.submit(kernel.bind(config).source),
            window=self._search.window,
            together=self.target.on_cpu,
        )
        for config, module in ahead:
            if module.digest in measured:
                first = measured[module.digest]
                same = {"kernel_digest": kernel.digest, "config": dict(config), "duplicate_of": first.config}
                yield first.model_copy(update=same)
                continue
            for _ in range(ATTEMPTS):
                with self._exclusive():
                    found = self._evaluate(runner, kernel, config, module, self._search.prune_factor * best_ms)
                if found.measured or module.path is None:
                    break
            best_ms = min(best_ms, found.latency_ms or math.inf)
            if module.digest is not None and found.measured:
                measured[module.digest] = found
            yield found

    def compare(self, problem: Problem, kernel: Kernel, configs: Sequence[Config]) -> list[Evaluation]:
        """One evaluation per config, in a fresh process, each checked with new inputs several times; all are timed
        interleaved with each other and the default module."""
        runner = self._runner_of(MlirProblem.of(problem))
        modules = [runner.compiler.submit(kernel.bind(config).source) for config in configs]
        found = [self._fields(kernel, config, module.result()) for config, module in zip(configs, modules, strict=True)]
        seeds = [self._rng.randrange(2**31) for _ in range(self.settings.checks)]
        paths = {number: path for number, module in enumerate(modules) if (path := module.result().path) is not None}
        with self._exclusive():
            runner.start()
            for number, messages in self._checked(runner, paths, seeds, found).items():
                found[number] |= judged(messages, seeds)
            self._time_together(runner, [number for number in paths if found[number]["status"] == Status.OK], found)
            for number in paths:
                runner.drop(str(number))
        return [Evaluation(**fields) for fields in found]

    def profile(self, problem: Problem) -> Profile:
        """Raise `DeviceError`: no ceilings of a device are measured through IREE."""
        raise DeviceError(f"{problem.id} cannot be profiled through IREE", "its times are compared with IREE's default")

    def compile(self, problem: Problem, source: str, spec: str = "") -> CompiledModule:
        """Compile a module for the device as it is, with a tuning spec's text where there is one."""
        return self._runner_of(MlirProblem.of(problem)).compiler.submit(source, spec).result()

    def verify(self, problem: Problem, module: CompiledModule) -> str:
        """Return what is wrong with a compiled module's results, or why there is none; empty where nothing is."""
        if module.path is None:
            return module.message
        runner = self._runner_of(MlirProblem.of(problem))
        try:
            with self._exclusive():
                runner.load(CANDIDATE, module.path)
                return str(runner.check(CANDIDATE)["message"])
        except ModuleFailedError as error:
            return str(error)

    def _runner_of(self, problem: MlirProblem) -> ModuleRunner:
        """Return the runner of the last call if it had the same problem, otherwise a new one."""
        if self._runner is None or self._runner.problem != problem:
            self._end_session()
            seed, call_s = self._rng.randrange(2**31), self.settings.limits.call_s
            with self._exclusive():
                self._runner = ModuleRunner(problem, self.target, self._processes, self._compilers, call_s, seed)
        return self._runner

    def _exclusive(self) -> contextlib.AbstractContextManager[None]:
        return DeviceLock(self.environment.get("uuid", self.target.device)).held()

    def _evaluate(
        self, runner: ModuleRunner, kernel: Kernel, config: Config, module: CompiledModule, prune_above_ms: float
    ) -> Evaluation:
        """Check a module on the runner's inputs, and time it."""
        fields = self._fields(kernel, config, module)
        if module.path is None:
            return Evaluation(**fields)
        with self._failing(fields):
            runner.load(CANDIDATE, module.path)
            fields |= judged([runner.check(CANDIDATE)], [runner.seed])
            if fields["status"] == Status.OK:
                timings, contention = self._times(runner, [CANDIDATE], self._search.sampling, prune_above_ms)
                if timings[0].pruned:
                    fields["message"] = PRUNED.format(self._search.prune_factor)
                    fields |= timed(timings[0], None, contention, self.target.on_cpu)
                else:
                    runner.default_ms = runner.default_ms or timings[-1].measurement.median_ms
                    own, default = (at_speed_of(runner.default_ms, item, timings[-1]) for item in timings)
                    fields |= timed(own, default, contention, self.target.on_cpu)
        runner.drop(CANDIDATE)
        return Evaluation(**fields)

    def _checked(
        self, runner: ModuleRunner, paths: Mapping[int, Path], seeds: Sequence[int], found: Sequence[dict[str, Any]]
    ) -> dict[int, list[Message]]:
        """Check all modules on other inputs each time, each until it fails; enter what ends them into their fields."""
        messages: dict[int, list[Message]] = {number: [] for number in paths}
        for number, path in paths.items():
            with self._failing(found[number]):
                runner.load(str(number), path)
        for seed in seeds:
            runner.draw(seed)
            for number in paths:
                if found[number]["status"] == Status.OK and correct(messages[number]):
                    with self._failing(found[number]):
                        messages[number].append(runner.check(str(number)))
        return {number: some for number, some in messages.items() if found[number]["status"] == Status.OK}

    def _time_together(self, runner: ModuleRunner, numbers: Sequence[int], found: Sequence[dict[str, Any]]) -> None:
        """Time modules interleaved, and enter their times into the fields of their numbers."""
        try:
            timings, contention = self._times(runner, [str(number) for number in numbers], self.settings.sampling)
        except ModuleFailedError as error:
            for number in numbers:
                found[number] |= {"status": error.status, "message": f"when timed: {error}"}
            return
        for number, timing in zip(numbers, timings, strict=False):
            found[number] |= timed(timing, timings[-1], contention, self.target.on_cpu)

    def _times(
        self, runner: ModuleRunner, names: Sequence[str], sampling: Sampling, prune_above_ms: float | None = None
    ) -> tuple[list[Timing], float | None]:
        """Time modules interleaved with the default one, which comes last."""
        timers = [runner.timer(name) for name in (*names, DEFAULT)]
        return self._timer.time(timers, [runner.pid], (), sampling, prune_above_ms)

    def _fields(self, kernel: Kernel, config: Config, module: CompiledModule) -> dict[str, Any]:
        """Return the fields of an evaluation that are known once its module is compiled, or is not."""
        return {
            "status": VERDICTS.get(module.status, Status.OK),
            "kernel_digest": kernel.digest,
            "config": dict(config),
            "message": module.message,
            "log": module.log if module.path is None else "",
            "compile_s": module.seconds,
            "code_digest": module.digest,
            "environment": self.environment,
        }

    @contextlib.contextmanager
    def _failing(self, fields: dict[str, Any]) -> Generator[None]:
        """Turn what a module fails with into the fields of its evaluation."""
        try:
            yield
        except ModuleFailedError as error:
            fields |= {"status": error.status, "message": str(error)}

    def close(self) -> None:
        """End all processes."""
        self._end_session()
        if self._close_processes:
            self._processes.close()

    def _end_session(self) -> None:
        if self._runner is not None:
            self._runner.close()
            self._runner = None

    def __enter__(self) -> IreeEvaluator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
