"""`tune gemm --compile-only`: choices for a GPU that is not here, by the analytic model and by compiled code."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...core import Config, DeviceLimits, OptionError, PythonKernel, SpaceError, TorchProblem, Value
from ...core.devices import Architecture, architecture, kind_of
from ...core.events import Emit, PartDone, working
from ...core.languages import TRITON
from ...evaluators.compilation.cross import CrossCompiled, compile_for
from ...evaluators.languages.base import CompiledKernel
from ...evaluators.profiling.occupancy import Occupancy, occupancy
from ...tuners.gemm.amd import LEFT_TO_COMPILER, OPTIONS, amd_kernel
from ...tuners.gemm.analytic import first_configs, space_for
from ...tuners.gemm.device import Device
from ...tuners.gemm.result import ShapeResult
from ...tuners.gemm.shapes import Shape
from ...tuners.gemm.task import Task
from ._gemm_options import MEASURED_ONLY

NOT_MEASURED = "not measured"


def device_of_architecture(name: str) -> Device:
    """Return the GPU that stands for an architecture; raises `DeviceError` for an unknown one."""
    of = architecture(name)
    limits = DeviceLimits(
        architecture=of.name,
        multiprocessors=of.card.multiprocessors,
        shared_bytes=of.block_shared_bytes,
        registers=of.registers,
        threads=of.threads,
    )
    return Device(of.card.name, limits)


def task_for(task: Task, product: str, engine: str) -> Task:
    """Return a task with the kernel that its architecture's compiler takes; `engine` names the format of its files.

    Raises `OptionError` for kernels and files that are not for AMD's GPUs.
    """
    of = task.limits.described
    if kind_of(of.name).id != "hip":
        return task
    if not isinstance(task.kernel, PythonKernel) or task.kernel.language is not TRITON:
        raise OptionError(f"TileLang's matrix products are not for {of.name}", "use `backend` triton")
    if engine in MEASURED_ONLY:
        raise OptionError(
            f"`format` {engine} is for operators of NVIDIA's GPUs",
            "use `format` aiter, aiter-legacy, tune-gemm, vllm or sglang",
        )
    return replace(task, kernel=amd_kernel(task.kernel, product, of))


@dataclass(frozen=True)
class _Candidate:
    config: Config
    kernel: CompiledKernel
    occupancy: Occupancy | None

    @property
    def rank(self) -> tuple[bool, int, float, int]:
        """Sort key; the best has the smallest: no spills, then many resident warps, then few registers."""
        share = self.occupancy.share if self.occupancy else 0.0
        return self.kernel.spills > 0, self.kernel.spills, -share, self.kernel.registers


def compile_shapes(task: Task, shapes: Sequence[Shape], emit: Emit) -> list[ShapeResult]:
    """Return a choice for each shape. A shape without one has a result with an error."""
    results = []
    for number, shape in enumerate(shapes, start=1):
        start = time.monotonic()
        with working(emit, f"compiling for {task.limits.architecture}: {shape}"):
            try:
                result = _choose(task, shape)
            except (SpaceError, OptionError) as error:
                result = ShapeResult(shape, error=" ".join(str(error).split()))
        result = replace(result, seconds=time.monotonic() - start)
        emit(PartDone(result, number, len(shapes)))
        results.append(result)
    return results


def _choose(task: Task, shape: Shape) -> ShapeResult:
    """Take the best estimate whose code fits, then the best of the compiler's options for it.

    The analytic model orders tiles, warps, stages and split K; it does not cover AMD's options, for which compiled code
    decides.
    """
    problem, product, trials = task.problem(shape), task.product(shape), task.budget.trials or 1
    space = space_for(task.kernel, shape, product, task.limits, {**task.fixed, **_without_options(task)})
    configs = first_configs(space, task.limits, product)[:trials]
    compiled = _compiled(task, problem, configs)
    fitting = [item for item in map(_candidate, configs, compiled, [task.limits.described] * len(configs)) if item]
    if not fitting:
        reason = next((item.error for item in compiled if item.error), "all take too much shared memory")
        return ShapeResult(shape, trials=len(configs), error=f"no config compiles: {reason.strip().splitlines()[-1]}")
    best = min(fitting, key=lambda item: item.kernel.spills > 0)  # of those without spills the first
    others = _with_options(best.config, _options_of(task), trials - len(configs))
    compiled = _compiled(task, problem, others)
    more = [item for item in map(_candidate, others, compiled, [task.limits.described] * len(others)) if item]
    best = min([best, *more], key=lambda item: item.rank)
    return ShapeResult(
        shape, best.config, _told(best, task.limits.described, shape, task), trials=len(configs) + len(others)
    )


def _options_of(task: Task) -> Mapping[str, Sequence[Value]]:
    """Return the values of the compiler's options that the kernel's space has, by constant."""
    declared = task.kernel.declared_values
    return {name: declared[name] for name in OPTIONS.values() if name in declared}


def _without_options(task: Task) -> dict[str, Sequence[Value]]:
    """Return one value for each of the compiler's options: its own choice if that is among the values."""
    own = {OPTIONS[name]: value for name, value in LEFT_TO_COMPILER.items()}
    return {name: [own[name] if own[name] in choices else choices[0]] for name, choices in _options_of(task).items()}


def _with_options(config: Config, options: Mapping[str, Sequence[Value]], most: int) -> list[Config]:
    """Return at most so many configs that differ from one in these options."""
    found: list[Config] = []
    for name, choices in options.items():
        for start in [config, *found]:
            found += [Config({**start, name: value}) for value in choices if value != start[name]]
    tile = min(int(config["BLOCK_SIZE_M"]), int(config["BLOCK_SIZE_N"]))
    nonkdim = OPTIONS["matrix_instr_nonkdim"]
    allowed = [item for item in dict.fromkeys(found) if item != config and int(item[nonkdim]) <= tile]
    return allowed[: max(most, 0)]


def _compiled(task: Task, problem: TorchProblem, configs: Sequence[Config]) -> list[CrossCompiled]:
    cases = [(problem, task.kernel.bind(config)) for config in configs]
    return list(compile_for(task.limits.architecture, cases)) if cases else []


def _candidate(config: Config, compiled: CrossCompiled, of: Architecture) -> _Candidate | None:
    """Return a config that can run: it compiles, its launches fit, and it has the matrix instructions."""
    kernel = compiled.product()
    if kernel is None or any((item.shared_bytes or 0) > of.block_shared_bytes for item in compiled.kernels):
        return None
    if not any(used.split()[0] in of.matrix for used in kernel.tensor_cores or ()):
        return None
    resident = occupancy(of.name, kernel.threads or of.warp_size, kernel.registers, kernel.shared_bytes or 0)
    return _Candidate(config, kernel, resident)


def _told(best: _Candidate, of: Architecture, shape: Shape, task: Task) -> str:
    kernel = best.kernel
    spilled = f"{kernel.spills} bytes spilled" if kernel.spills else "no spills"
    parts = [
        f"{NOT_MEASURED}: {kernel.registers} of {of.thread_registers} registers",
        f"{(kernel.shared_bytes or 0) / 1024:.0f} KiB of shared memory", spilled, "/".join(kernel.tensor_cores or ()),
    ]  # fmt: skip
    if best.occupancy is not None:
        parts.append(f"{best.occupancy.share:.0%} of the warps resident")
    if (floor := _floor_ms(of, shape, task)) is not None:
        parts.append(f"at least {floor:.4f} ms at the published rates of {of.card.name}")
    return ", ".join(parts)


def _floor_ms(of: Architecture, shape: Shape, task: Task) -> float | None:
    """Return the roofline's milliseconds at published rates: of products, reading operands and writing results."""
    rates = of.card.tflop_s
    rate = rates.get(task.dtype, rates.get("float16"))  # fp8 that the instructions do not take is multiplied as fp16
    if rate is None or of.card.memory_gb_s is None or shape.experts:
        return None
    moved = (shape.m + shape.n) * shape.k * task.element_bytes + 2 * shape.m * shape.n
    return max(shape.flops / rate / 1e9, moved / of.card.memory_gb_s / 1e6)
