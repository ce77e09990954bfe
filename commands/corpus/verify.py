"""Check that both kernels of each example are correct, and measure how much faster the second one is.

With --kernels the shipped kernels are checked first, each at the device's default sizes.

Exit codes: 0 all are correct, 1 some are not, 2 wrong usage.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, field_serializer

from ...core import Config, Gain, OptionError, Speedup, Target, backends
from ...core.events import Emit, Mark, PartDone
from ...core.files import write_whole
from ...corpus.examples import ExampleFolder, list_examples, read_gains
from ...corpus.kernels import KernelFile, list_kernels, list_operator_kernels
from ...corpus.names import nearest
from ...corpus.problems import find_problem
from ...evaluators.local import LocalEvaluator
from ...runtime import command, result
from ...runtime.devices import CPU, device_of
from ...runtime.jobs import at_workload
from ...runtime.options.groups import DeviceOptions, require_examples
from ...runtime.options.option import described, option
from ...runtime.options.trust import QuickOptions, TimingOptions
from ...runtime.runtime import OpenLocal, Runtime
from ...tuners.gemm.device import BLOCK_FORMATS
from ...tuners.gemm.stores.store import BLOCKSCALE

EXAMPLES = ("corpus verify triton/softmax-online --device cuda", "corpus verify --kernels --record measured.json")
POSITIONAL = ("examples",)


@dataclass(frozen=True, kw_only=True)
class Options(QuickOptions, DeviceOptions):
    """Check and measure the worked examples, and the shipped kernels."""

    examples: tuple[str, ...] = field(
        default=(), kw_only=False, metadata=described("Examples, such as triton/softmax-online; all by default.")
    )
    folder: Path | None = option(
        None, "Folder of examples written by 'corpus add'; by default the shipped ones.", metavar="DIR"
    )
    kernels: bool = option(False, "Check every shipped kernel that the device can run too, and time it.")
    record: Path | None = option(None, "File for the metrics; models see those in corpus/examples/measured.json.")

    def check(self) -> None:
        """Raise `OptionError` for a folder that is not there."""
        super().check()
        require_examples("folder", self.folder)


class ExampleResult(BaseModel):
    """The result of one example."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    example: str
    """The example's name, such as 'triton/softmax-online'."""
    correct: bool = Field(serialization_alias="right")
    """Whether both kernels are correct."""
    messages: tuple[str, ...] = ()
    """The failures."""
    gain: Gain | None = None
    """The measured gain; None if nothing was timed, or other processes disturbed it."""


class KernelResult(BaseModel):
    """The result of one shipped kernel."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    kernel: str
    """Backend and problem, such as 'triton/level1/1_19'."""
    correct: bool = Field(serialization_alias="right")
    messages: tuple[str, ...] = ()
    """The failure."""
    speedup: Speedup | None = None
    """Speedup over the reference; None if nothing was timed, or other processes disturbed it."""
    timed: bool = Field(True, exclude=True)
    """Whether the device can time it; otherwise an interpreter checked it."""

    @field_serializer("speedup")
    def _ratio(self, speedup: Speedup | None) -> float | None:
        return speedup.ratio if speedup else None


@dataclass(frozen=True)
class Plan(command.Plan):
    """The examples and kernels to check."""

    device: str
    kernels: list[tuple[str, KernelFile]] = field(metadata=command.NOT_SHOWN)
    """With their backends."""
    folders: list[ExampleFolder] = field(metadata=command.NOT_SHOWN)
    record: Path | None
    known: dict[str, Gain] = field(metadata=command.NOT_SHOWN)
    """Metrics that `record` has."""
    open_evaluator: OpenLocal = field(metadata=command.NOT_SHOWN)

    def to_json(self) -> dict[str, Any]:
        """The plan with the names."""
        kernels = [f"{backend}/{file.problem}" for backend, file in self.kernels]
        return {**super().to_json(), "kernels": kernels, "examples": [folder.slug for folder in self.folders]}


class Result(result.Result):
    """The results of the examples, and of the kernels if requested."""

    absent_if_empty: ClassVar = ("kernels",)
    kernels: tuple[KernelResult, ...] = ()
    results: tuple[ExampleResult, ...]

    @result.computed
    def wrong(self) -> tuple[str, ...]:
        """The kernels and examples that are not correct."""
        return (
            *(result.kernel for result in self.kernels if not result.correct),
            *(result.example for result in self.results if not result.correct),
        )

    @property
    def exit_code(self) -> int:
        """1 if some are not correct."""
        return 1 if self.wrong else 0

    def lines(self) -> Iterator[str]:
        """The number of correct ones. The line of each was an event."""
        for what, found in (("kernels", self.kernels), ("examples", self.results)):
            if found:
                yield f"{sum(item.correct for item in found)} of {len(found)} {what} are correct"


def plan(options: Options, runtime: Runtime) -> Plan:
    """Find the examples and kernels that the device can run."""
    device = runtime.device(options)
    return Plan.of(
        options,
        device=device,
        kernels=_runnable_kernels(device) if options.kernels else [],
        folders=_chosen(options, device),
        known=dict(read_gains(options.record)) if options.record else {},
        open_evaluator=runtime.local_evaluator(device, TimingOptions(quick=options.quick)),
    )


def run(plan: Plan, emit: Emit) -> Result:
    """Check and time it; each example is recorded at once."""
    total, device = len(plan.kernels) + len(plan.folders), plan.device
    kernels: list[KernelResult] = []
    results: list[ExampleResult] = []

    def tell(found: KernelResult | ExampleResult, name: str) -> None:
        mark, number = Mark.GOOD if found.correct else Mark.FAILED, len(kernels) + len(results)
        emit(PartDone(found, number, total, name=name, text=described_result(found), mark=mark))

    with plan.open_evaluator() as evaluator:
        for backend, file in plan.kernels:
            kernels.append(kernel := _verify_kernel(evaluator, backend, file, device))
            tell(kernel, kernel.kernel)
        for folder in plan.folders:
            results.append(found := _verify(evaluator, folder, timed=not _only_checked(folder, device)))
            tell(found, found.example)
            if plan.record and _noted(plan.known, found):
                # Set fields only: a record that is older than digests does not change.
                known = plan.known
                shown = {slug: known[slug].model_dump(mode="json", exclude_unset=True) for slug in sorted(known)}
                write_whole(plan.record, json.dumps(shown, indent=1) + "\n", "choose another `record`")
    return Result(results=tuple(results), kernels=tuple(kernels))


def _runnable_kernels(device: str) -> list[tuple[str, KernelFile]]:
    """Return the shipped kernels with their backends, grouped by problem, so that each reference is opened once."""
    found = [
        (backend, file) for backend in backends() for file in (*list_operator_kernels(backend), *list_kernels(backend))
    ]
    of = device_of(device)
    lacking = [f"gemm/{BLOCKSCALE}"] if not of.has_fp8 else []
    if device != CPU:
        lacking += [f"gemm/{name}" for name in BLOCK_FORMATS if name not in of.limits.described.block_scaled]
    runnable = [
        (backend, file)
        for backend, file in found
        if file.read().runs_on(Target.of_device(device)) and file.problem not in lacking
    ]
    return sorted(runnable, key=lambda pair: pair[1].problem)


def _verify_kernel(evaluator: LocalEvaluator, backend: str, file: KernelFile, device: str) -> KernelResult:
    kernel, problem = file.read(), find_problem(file.problem).read()
    (found,) = evaluator.evaluate(at_workload(problem, kernel.target, device, None), kernel, [Config()])
    messages = () if found.ok else (f"{found.status}: {found.message}",)
    speedup = found.speedup if found.contention is None else None
    return KernelResult(
        kernel=f"{backend}/{file.problem}",
        correct=found.ok,
        messages=messages,
        speedup=speedup,
        timed=found.measurement is not None,
    )


def _noted(known: dict[str, Gain], result: ExampleResult) -> bool:
    """Add an example's metrics to the known ones, or remove those of a wrong example; return whether that changed
    anything. A correct example that was not timed keeps its metrics."""
    if not result.correct:
        return known.pop(result.example, None) is not None
    if result.gain is None:
        return False
    known[result.example] = result.gain
    return True


def _chosen(options: Options, device: str) -> list[ExampleFolder]:
    names = options.examples
    folders = {folder.slug: folder for folder in list_examples(options.folder)}
    if unknown := [name for name in names if name not in folders]:
        raise OptionError(f"there is no example {unknown[0]!r}{nearest(unknown[0], list(folders))}")
    wanted = [folders[name] for name in names] or list(folders.values())
    runnable = [folder for folder in wanted if _runs(folder, device)]
    if not runnable:
        raise OptionError(f"none of these examples runs on {device}", "give others, or another `device`")
    return runnable


def _runs(folder: ExampleFolder, device: str) -> bool:
    on_cpu = folder.read_kernel("before").target is Target.CPU
    return on_cpu == (device == CPU) or _only_checked(folder, device)


def _only_checked(folder: ExampleFolder, device: str) -> bool:
    """Return whether an interpreter replaces the device. Then kernels are checked but not timed."""
    kernel, processor = folder.read_kernel("before"), Target.of_device(device)
    return kernel.target is not processor and kernel.runs_on(processor)


def _verify(evaluator: LocalEvaluator, folder: ExampleFolder, timed: bool) -> ExampleResult:
    digest, problem = folder.digest, folder.read_problem()
    problem = problem if timed else problem.at("tiny")
    before, after = evaluator.contest(problem, [folder.read_kernel(which) for which in ("before", "after")])
    messages = tuple(f"{e.status}: {e.message}" for e in (before, after) if not e.ok)
    gain = Gain.between(before, after, after.environment.get("device", ""), digest)
    return ExampleResult(example=folder.slug, correct=before.ok and after.ok, messages=messages, gain=gain)


def described_result(result: KernelResult | ExampleResult) -> str:
    """A result in a line, without its name."""
    if not result.correct:
        return "; ".join(result.messages)
    if isinstance(result, KernelResult):
        speedup = result.speedup
        if speedup is None:
            return f"correct, {'without a reliable time' if result.timed else 'not timed'}"
        return f"{speedup.ratio:.2f}x [{speedup.low:.2f}, {speedup.high:.2f}] of the reference"
    gain = result.gain
    if gain is None:
        return "correct, not timed"
    return f"{gain.before_ms:.4f} ms to {gain.after_ms:.4f} ms, {gain.speedup:.2f}x [{gain.low:.2f}, {gain.high:.2f}]"
