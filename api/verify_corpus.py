"""`verify_corpus`: both kernels of every example, and every shipped kernel, checked and timed on a device."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ..core import Config, Gain, OptionError, Speedup, Target, backends
from ..core.events import Emit, PartDone
from ..core.files import write_whole
from ..corpus.examples import ExampleFolder, list_examples, read_gains
from ..corpus.kernels import KernelFile, list_gemm_kernels, list_kernels
from ..corpus.names import nearest
from ..corpus.problems import find_problem
from ..evaluators.local import LocalEvaluator
from ..tuners.gemm.stores.store import BLOCKSCALE
from .devices import CPU, choose_device, device_of
from .evaluators import local_evaluator
from .jobs import at_workload
from .options.corpus import VerifyOptions
from .options.trust import TimingOptions


@dataclass(frozen=True)
class ExampleResult:
    """The result of one example."""

    example: str
    """Its name, such as 'triton/softmax-online'."""
    correct: bool
    """Whether both kernels are correct."""
    messages: tuple[str, ...] = ()
    """The failures."""
    gain: Gain | None = None
    """None where nothing was timed, or other processes disturbed it."""

    def record(self) -> dict[str, Any]:
        """The result as plain data, as `--json` prints it."""
        return {
            "example": self.example,
            "right": self.correct,
            "messages": list(self.messages),
            "gain": self.gain.model_dump(mode="json") if self.gain else None,
        }


@dataclass(frozen=True)
class KernelResult:
    """The result of one shipped kernel."""

    kernel: str
    """Backend and problem, such as 'triton/level1/1_19'."""
    correct: bool
    messages: tuple[str, ...] = ()
    """The failure."""
    speedup: Speedup | None = None
    """Over the reference; None where nothing was timed, or other processes disturbed it."""
    timed: bool = True
    """Whether the device can time it; else an interpreter checked it."""

    def record(self) -> dict[str, Any]:
        """The result as plain data, as `--json` prints it."""
        return {
            "kernel": self.kernel,
            "right": self.correct,
            "messages": list(self.messages),
            "speedup": self.speedup.ratio if self.speedup else None,
        }


@dataclass(frozen=True)
class VerifyResult:
    """The results of the examples, and of the kernels where these were wanted."""

    results: tuple[ExampleResult, ...]
    kernels: tuple[KernelResult, ...] = ()

    @property
    def wrong(self) -> tuple[str, ...]:
        """The kernels and examples that are not correct."""
        return (
            *(result.kernel for result in self.kernels if not result.correct),
            *(result.example for result in self.results if not result.correct),
        )

    def summary(self) -> dict[str, Any]:
        """The results as plain data."""
        kernels = {"kernels": [result.record() for result in self.kernels]} if self.kernels else {}
        return {**kernels, "results": [result.record() for result in self.results], "wrong": list(self.wrong)}


def run_verify(options: VerifyOptions, emit: Emit) -> VerifyResult:
    """Check and time what the device can run; each example is recorded at once."""
    device = choose_device(options)
    files = _runnable_kernels(device) if options.kernels else []
    folders = _chosen(options, device)
    total = len(files) + len(folders)
    kernels: list[KernelResult] = []
    known = dict(read_gains(options.record)) if options.record else {}
    results: list[ExampleResult] = []
    with local_evaluator(device, TimingOptions(quick=options.quick)) as evaluator:
        for number, (backend, file) in enumerate(files, start=1):
            kernels.append(_verify_kernel(evaluator, backend, file, device))
            emit(PartDone(kernels[-1], number, total))
        for number, folder in enumerate(folders, start=len(files) + 1):
            result = _verify(evaluator, folder, timed=not _only_checked(folder, device))
            results.append(result)
            emit(PartDone(result, number, total))
            if options.record and _noted(known, result):
                # Only what was set: a record from before there were digests stays as it is.
                found = {slug: known[slug].model_dump(mode="json", exclude_unset=True) for slug in sorted(known)}
                write_whole(options.record, json.dumps(found, indent=1) + "\n", "choose another `record`")
    return VerifyResult(tuple(results), tuple(kernels))


def _runnable_kernels(device: str) -> list[tuple[str, KernelFile]]:
    """Return the shipped kernels with their backends, by problem: one reference after the other."""
    found = [
        (backend, file) for backend in backends() for file in (*list_gemm_kernels(backend), *list_kernels(backend))
    ]
    lacking = () if device_of(device).has_fp8 else (f"gemm/{BLOCKSCALE}",)
    runnable = [
        (backend, file)
        for backend, file in found
        if file.read().runs_on(Target.of_device(device)) and file.problem not in lacking
    ]
    return sorted(runnable, key=lambda one: one[1].problem)


def _verify_kernel(evaluator: LocalEvaluator, backend: str, file: KernelFile, device: str) -> KernelResult:
    kernel, problem = file.read(), find_problem(file.problem).read()
    (found,) = evaluator.evaluate(at_workload(problem, kernel.target, device, None), kernel, [Config()])
    messages = () if found.ok else (f"{found.status}: {found.message}",)
    speedup = found.speedup if found.contention is None else None
    return KernelResult(f"{backend}/{file.problem}", found.ok, messages, speedup, found.measurement is not None)


def _noted(known: dict[str, Gain], result: ExampleResult) -> bool:
    """Put the metrics of an example among the known ones, or, where it is wrong, take them out; whether that changed
    anything. A correct example that was not timed keeps the metrics that it has."""
    if not result.correct:
        return known.pop(result.example, None) is not None
    if result.gain is None:
        return False
    known[result.example] = result.gain
    return True


def _chosen(options: VerifyOptions, device: str) -> list[ExampleFolder]:
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
    """Whether an interpreter stands in for the device: it checks, and does not time."""
    kernel, processor = folder.read_kernel("before"), Target.of_device(device)
    return kernel.target is not processor and kernel.runs_on(processor)


def _verify(evaluator: LocalEvaluator, folder: ExampleFolder, timed: bool) -> ExampleResult:
    digest, problem = folder.digest, folder.read_problem()
    problem = problem if timed else problem.at("tiny")
    before, after = evaluator.contest(problem, [folder.read_kernel(which) for which in ("before", "after")])
    messages = tuple(f"{e.status}: {e.message}" for e in (before, after) if not e.ok)
    gain = Gain.between(before, after, after.environment.get("device", ""), digest)
    return ExampleResult(folder.slug, before.ok and after.ok, messages, gain)
