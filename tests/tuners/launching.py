"""A kernel whose parameters each reach a launch of their own, and trials with the times of its launches."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kernelwright.core import Config, Evaluation, PythonKernel, SearchSpace, Tuner, Value
from kernelwright.testing.tuner import failure
from kernelwright.tuners.by_launch.creation import tuner_for
from kernelwright.tuners.catalogue import TunerArguments, TunerEntry

KERNEL = """
@triton.jit
def {launch}(x_ptr, {name}: tl.constexpr):
    pass
"""


def kernel_of(values: Mapping[str, Value]) -> PythonKernel:
    """A Triton kernel file with a launch for each parameter, called as it is in small letters."""
    lines = ["import torch", "import triton", "import triton.language as tl", ""]
    lines += [f"{name} = {value!r}" for name, value in values.items()]
    lines += [KERNEL.format(launch=name.lower(), name=name) for name in values]
    lines += ["class ModelNew(torch.nn.Module):", "    def forward(self, x):"]
    lines += [f"        {name.lower()}[(1,)](x, {name}={name})" for name in values]
    return PythonKernel.parse("\n".join([*lines, "        return x", ""]))


def split_kernel(space: SearchSpace) -> PythonKernel:
    return kernel_of({parameter.name: parameter.default for parameter in space.parameters})


def timed_launches(config: Config, launches_ms: Mapping[str, float], others_ms: float = 0.0) -> Evaluation:
    """A trial that works, with the times of its launches."""
    whole = Evaluation.recorded(config, sum(launches_ms.values()) + others_ms)
    return whole.model_copy(update={"launches_ms": dict(launches_ms)})


def answering(time: Callable[[str, Value], float | None]) -> Callable[[Config], Evaluation]:
    """Trials in which each parameter's launch takes a time of its own, or fails."""

    def answer(config: Config) -> Evaluation:
        times = {name.lower(): time(name, value) for name, value in config.items()}
        timed = {name: ms for name, ms in times.items() if ms is not None}
        return timed_launches(config, timed) if len(timed) == len(times) else failure(config)

    return answer


class WithLaunches:
    """Tells a tuner a trial's time as that of equal launches, as an evaluator with their times would."""

    def __init__(self, tuner: Tuner, space: SearchSpace) -> None:
        self._tuner = tuner
        self._space = space

    def ask(self, n: int = 1) -> list[Config]:
        return self._tuner.ask(n)

    def tell(self, config: Config, evaluation: Evaluation) -> None:
        if evaluation.latency_ms is not None:
            each = evaluation.latency_ms / len(self._space.names)
            update = {"launches_ms": {name.lower(): each for name in self._space.names}}
            evaluation = evaluation.model_copy(update=update)
        self._tuner.tell(config, evaluation)


def entry_by_launch(name: str, with_times: bool) -> TunerEntry:
    """The named tuner per launch, for any space."""

    def make(task: TunerArguments) -> Tuner:
        kernel = split_kernel(task.space)
        tuner = tuner_for(kernel, name, task.space, task.seed, task.warm, task.start, task.profile, task.stride)
        return WithLaunches(tuner, task.space) if with_times else tuner

    return TunerEntry(make)
