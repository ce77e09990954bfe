"""Runs modules of one problem: the default module, the process, and the inputs drawn there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ...core import MlirProblem, ProblemError, Status
from ..timing.sampling import Timer
from ..workers.channel import Message
from .compiler import CompiledModule, IreeCompiler, require
from .process import ModuleFailedError, ModuleProcess
from .processes import IreeProcesses
from .target import IreeTarget, repeats_on_gpu
from .worker import DEFAULT

APART = "NumPy and IREE's default module disagree about {}: {}"


class ModuleRunner:
    """Compiles and runs modules of one problem; its process is started anew after a crash.

    On a GPU each dispatch runs several times in a call, unless the default module's results show that it must not: one
    that adds to what is in memory would do so again.
    """

    def __init__(
        self,
        problem: MlirProblem,
        target: IreeTarget,
        processes: IreeProcesses,
        compilers: dict[str, Any],
        call_s: float,
        seed: int,
    ) -> None:
        """`compilers` are the arguments of `IreeCompiler` other than the target and the processes.

        Raises `ProblemError` where no inputs can be drawn and where the default module fails or computes something else
        than NumPy, and `DeviceError` where IREE cannot compile for the target.
        """
        for value in problem.inputs:
            _ = value.dtype  # raises before anything is compiled if no inputs can be drawn
        self.problem = problem
        self._processes, self._call_s = processes, call_s
        self.seed = seed
        self.default_ms: float | None = None
        """Time of the default module in the first trial."""
        self._process: ModuleProcess | None = None
        self._loaded: dict[str, Path] = {}
        once = target.on_cpu or problem.steps is None  # without NumPy nothing would show what repeating does
        for repeats in dict.fromkeys((1,) if once else (repeats_on_gpu(problem), 1)):
            self.target = replace(target, repeats=repeats)
            self.compiler = IreeCompiler(self.target, processes, **compilers)
            self.default: CompiledModule = self.compiler.submit(problem.source).result()
            try:
                self._default_path = require(self.default, f"{problem.name}, unmodified", self.target)
                told = self.start()
            except ModuleFailedError as error:
                self.close()
                raise ProblemError(f"IREE's default module of {problem.name} fails: {error}") from None
            except BaseException:
                self.close()
                raise
            if told["status"] == Status.OK:
                return
            self.close()
        raise ProblemError(APART.format(problem.name, told["message"]))

    @property
    def pid(self) -> int:
        """Process id of the process that runs modules."""
        return self._alive().pid

    def start(self) -> Message:
        """Start the process; load the modules and draw inputs, which returns how the default differs from NumPy."""
        if self._process is not None:
            self._process.close()
        self._process = ModuleProcess(self._processes, self.target, self.problem, self._call_s)
        for name, path in {DEFAULT: self._default_path, **self._loaded}.items():
            self._process.load(name, path)
        return self._process.ask("draw", seed=self.seed)

    def draw(self, seed: int) -> None:
        """Draw other inputs."""
        self.seed = seed
        self._alive().ask("draw", seed=seed)

    def load(self, name: str, path: Path) -> None:
        """Load a compiled module; raises `ModuleFailedError`, as all below do."""
        self._alive().load(name, path)
        self._loaded[name] = path

    def drop(self, name: str) -> None:
        """Forget a module."""
        if self._loaded.pop(name, None) is not None:
            self._alive().ask("drop", name=name)

    def check(self, name: str) -> Message:
        """Compare a module's results; see `worker.Modules.check`."""
        return self._ask("check", name)

    def timer(self, name: str) -> Timer:
        """Return what takes samples of a module."""
        return lambda samples: self._ask("time", name, samples=samples)

    def _ask(self, op: str, name: str, **request: Any) -> Message:
        """Ask about a module; one that takes the process with it is not loaded again."""
        process = self._alive()
        try:
            return process.ask(op, name=name, **request)
        except ModuleFailedError:
            if not process.alive:
                self._loaded.pop(name, None)
            raise

    def _alive(self) -> ModuleProcess:
        if self._process is None or not self._process.alive:
            self.start()
        assert self._process is not None
        return self._process

    def close(self) -> None:
        """End its process and the compilers."""
        self.compiler.close()
        if self._process is not None:
            self._process.close()
            self._process = None
