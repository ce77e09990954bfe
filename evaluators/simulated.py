"""An evaluator without a device: it simulates a model of the pipelined loop, and marks every result as simulated."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence

from ..core import (
    Config,
    Correctness,
    DeviceError,
    Evaluation,
    Kernel,
    Measurement,
    Origin,
    Problem,
    Profile,
    Status,
)
from ..core.text import digest_of
from .loop_simulator import SimulatedLoop, SimulationResult, simulate

METHOD = "simulated: cycles of the model"
ENVIRONMENT = {"device": "simulated"}
PASSED = Correctness(seeds=(0,), max_abs_error=0, max_rel_error=0, tolerance=0, passed=True)
"""Each read of the simulated loop got the value of the right iteration. No numbers were computed."""


class SimulatedEvaluator:
    """Speaks the `Evaluator` protocol; nothing runs, and nothing is compiled.

    `loop_of` turns a config into the loop that the kernel would execute, or says in words why it cannot be built; it
    gets the kernel's own constants too.
    """

    def __init__(self, loop_of: Callable[[Config], SimulatedLoop | str]) -> None:
        self._loop_of = loop_of

    def evaluate(
        self, problem: Problem, kernel: Kernel, configs: Iterable[Config], known: Sequence[Evaluation] = ()
    ) -> Generator[Evaluation]:
        """One evaluation per config, in order, each drawn when the one before is known; see `core.Evaluator`."""
        seen = {e.code_digest: e.config for e in known if e.code_digest and e.duplicate_of is None}
        for config in configs:
            found = self._evaluate(kernel, config)
            if found.code_digest is not None:
                first = seen.setdefault(found.code_digest, dict(config))
                if first != dict(config):
                    found = found.model_copy(update={"duplicate_of": first})
            yield found

    def compare(self, problem: Problem, kernel: Kernel, configs: Sequence[Config]) -> list[Evaluation]:
        """One evaluation per config. A simulation has no noise: they are what `evaluate` yields."""
        return [self._evaluate(kernel, config) for config in configs]

    def profile(self, problem: Problem) -> Profile:
        """Raise `DeviceError`: no ceiling of a device can be simulated."""
        raise DeviceError(f"{problem.id} cannot be profiled by a simulation", "use a device")

    def _evaluate(self, kernel: Kernel, config: Config) -> Evaluation:
        loop = self._loop_of(Config({**kernel.config, **config}))
        if isinstance(loop, str):
            return self._failed(kernel, config, Status.COMPILE_ERROR, loop)
        run = simulate(loop)
        if run.wrong:
            return self._failed(kernel, config, Status.WRONG_VALUE, run.wrong)
        return Evaluation(
            status=Status.OK,
            kernel_digest=kernel.digest,
            config=dict(config),
            origin=Origin.SIMULATED,
            message=f"simulated: {run.interval:g} cycles per iteration",
            correctness=PASSED,
            measurement=Measurement(samples_ms=(_milliseconds(loop, run),), method=METHOD),
            code_digest=digest_of(repr(loop)),
            environment=ENVIRONMENT,
        )

    def _failed(self, kernel: Kernel, config: Config, status: Status, why: str) -> Evaluation:
        return Evaluation(
            status=status,
            kernel_digest=kernel.digest,
            config=dict(config),
            origin=Origin.SIMULATED,
            message=f"simulated: {why}",
            environment=ENVIRONMENT,
        )


def simulated_ms(loop: SimulatedLoop) -> float:
    """Return the milliseconds of a loop by the model."""
    return _milliseconds(loop, simulate(loop))


def _milliseconds(loop: SimulatedLoop, run: SimulationResult) -> float:
    return (run.cycles + loop.overhead) * loop.cycle_us * loop.rounds / 1e3
