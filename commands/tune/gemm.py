"""Tune a matrix product over a table of shapes, and write an engine's config files.

Exit codes: 0 finished, 1 a shape has no choice or was left out, 2 wrong usage.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...core import Config, Evaluation, KernelwrightError, OptionError
from ...core.events import Emit, Event, Note, PartDone, Warned, working
from ...core.files import write_whole
from ...corpus.functions.triton_cache import enter_products
from ...evaluators.local import LocalEvaluator
from ...evaluators.settings import Sampling, SearchSettings
from ...runtime import command
from ...runtime.devices import CPU, device_of
from ...runtime.evaluators import Searcher
from ...runtime.runtime import OpenSearcher, Runtime
from ...tuners import catalogue
from ...tuners.gemm.cover import cover
from ...tuners.gemm.device import Device
from ...tuners.gemm.fields import suited
from ...tuners.gemm.library import ABSENT
from ...tuners.gemm.lookup import configs_folder, installed
from ...tuners.gemm.outcome import first_message, largest_error
from ...tuners.gemm.result import PINNED, ShapeResult
from ...tuners.gemm.rule import fit_rule
from ...tuners.gemm.shapes import Shape
from ...tuners.gemm.sizes import Sizes
from ...tuners.gemm.stores import store_of
from ...tuners.gemm.stores.stamp import older_entries
from ...tuners.gemm.stores.store import BLOCKSCALE, TRITON, ConfigKey, EngineFormat
from ...tuners.gemm.stores.triton_cache import FUNCTION, MODULE, TIMES, TritonCache, workloads
from ...tuners.gemm.sweep import Sweep
from ...tuners.gemm.task import Task
from ._gemm_compiled import NOT_MEASURED, compile_shapes, device_of_architecture, task_for
from ._gemm_options import Options as Options
from ._gemm_options import sizes_of, task_of
from ._gemm_result import Result as Result
from ._gemm_result import describe, geomean

EXAMPLES = (
    "tune gemm --sizes sizes.yaml --format tune-gemm --output tuned.yaml --compare",
    "tune gemm a8w8_blockscale -m 16 -m 64 -n 7168 -k 2048 --format vllm --output configs",
    "tune gemm -m 4096 -n 4096 -k 8192 --arch gfx942 --compile-only --format tune-gemm -o tuned.yaml",
    "tune gemm moe -m 16 -m 64 -n 14336 -k 4096 --experts 8 --top-k 2 --format sglang -o configs",
)
POSITIONAL = ("product",)
MAX_COVER_CANDIDATES = 12
"""Number of configs, the most frequent winners, that are measured at all shapes to choose a set that serves all."""


@dataclass(frozen=True)
class Plan(command.Plan):
    """A sweep over shapes, and the files that it writes."""

    product: str
    dtype: str
    devices: list[str]
    device: Device = field(metadata=command.NOT_SHOWN)
    sizes: Sizes = field(metadata=command.NOT_SHOWN)
    task: Task = field(metadata=command.NOT_SHOWN)
    subject: ConfigKey = field(metadata=command.NOT_SHOWN)
    store: EngineFormat = field(metadata=command.NOT_SHOWN)
    target: Path
    """Where the engine's files are."""
    folder: Path
    resume: bool
    check_only: bool
    """Whether to check the configs in the file of sizes, without a search."""
    show_errors: bool
    max_configs: int | None
    """Maximum number of configs in a set for all shapes; None for no set."""
    compile_only: bool
    """Whether choices are made for an architecture that is not here; nothing is measured."""
    two_references: bool = field(metadata=command.NOT_SHOWN)
    """Whether cuBLAS may be another problem's reference."""
    open_evaluators: list[OpenSearcher] = field(metadata=command.NOT_SHOWN)
    """One for each device."""

    def to_json(self) -> dict[str, Any]:
        """The plan with the shapes."""
        return {**super().to_json(), "shapes": [str(shape) for shape in self.sizes.shapes]}


def plan(options: Options, runtime: Runtime) -> Plan:
    """Read the table of shapes, and check that its files can be written."""
    target, sampling = _target(options), _sampling(options.num_iters)
    devices = [] if options.compile_only else runtime.devices(options)
    searchers = [
        runtime.searcher([item], options, options.tuner, options.compile_limit, options.compilers, sampling)
        for item in devices
    ]
    sizes = sizes_of(options)
    for line in sizes.refused:
        runtime.emit(Warned(f"left out: {line}"))
    device = device_of_architecture(options.arch) if options.arch is not None else device_of(devices[0])
    if other := next((item for item in devices if device_of(item) != device), None):
        raise OptionError(f"{other} is not the same kind of GPU as {devices[0]}", "tune on each by itself")
    task = task_of(options, device, devices != [CPU])
    device.require(task.dtype)
    task = task_for(task, options.product, options.chosen_format)
    if not options.compile_only and not task.timed and options.backend != TRITON:
        raise OptionError("TileLang's matrix products run on a GPU only", "check files with `backend` triton")
    if options.compare_wo_tuning and not sizes.configs:
        raise OptionError(f"{options.sizes} has no configs to check", "give a result of `format` tune-gemm")
    subject = ConfigKey(options.product, task.dtype, device, options.layout, options.backend, installed(TRITON))
    if options.product == BLOCKSCALE and task.library is None and not options.compile_only:
        runtime.emit(Note(ABSENT))
    folder, store = options.results / "gemm" / _slug(options, device), store_of(options.chosen_format)
    store.check(subject)
    return Plan.of(
        options,
        dtype=options.chosen_dtype,
        devices=devices,
        device=device,
        sizes=sizes,
        task=replace(task, fixed=store.fixed(subject), default=store.default(subject)),
        subject=subject,
        store=store,
        target=target,
        folder=folder,
        check_only=options.compare_wo_tuning,
        show_errors=options.compare or options.compare_wo_tuning,
        max_configs=options.configs,
        two_references=options.benchmark,
        open_evaluators=searchers,
    )


def run(plan: Plan, emit: Emit) -> Result:
    """Tune every shape, or check the configs of a file; write the results, also those of an interrupted sweep."""

    width = max((len(f"{shape}:") for shape in plan.sizes.shapes), default=0)

    def pass_on(event: Event) -> None:
        if isinstance(event, PartDone) and isinstance(event.result, ShapeResult):
            shape = event.result
            named = f"{shape.shape}:"
            text = f"{named:<{width}} {describe(shape, plan.show_errors)}, {shape.seconds:.0f} s"
            event = replace(event, text=text, failed=shape.config is None)
        emit(event)

    empty = Result(
        product=plan.product, dtype=plan.dtype, device=plan.device.name, refused=plan.sizes.refused, folder=plan.folder
    )
    with contextlib.ExitStack() as stack:
        evaluators = [open_evaluator() for open_evaluator in plan.open_evaluators]
        for evaluator in evaluators:
            stack.enter_context(evaluator)
            if plan.two_references and isinstance(evaluator, LocalEvaluator):
                evaluator.processes.keep(2)
        if plan.check_only:
            return empty.model_copy(update={"shapes": tuple(_checked(plan, evaluators[0], pass_on))})
        plan.store.prepare(plan.target, plan.subject, plan.sizes.shapes)
        if plan.compile_only:
            chosen = compile_shapes(plan.task, plan.sizes.shapes, pass_on)
            return empty.model_copy(update={"shapes": tuple(chosen), **_saved(plan, chosen, emit)})
        catalogue.preload(plan.task.tuner)
        sweep = Sweep(plan.task, evaluators, plan.folder, pass_on, plan.resume)
        found: dict[str, Any] = {}
        try:
            sweep.run(plan.sizes.shapes)
            if plan.max_configs is not None:
                found = _cover(plan.max_configs, sweep, emit)
        finally:
            saved = _saved(plan, sweep.results, emit)
            result = empty.model_copy(update={"shapes": tuple(sweep.results), **found, **saved})
    if result.configs is not None:
        write_whole(plan.folder / "configs.json", json.dumps(result.configs, indent=1) + "\n")
    return result


def _saved(plan: Plan, shapes: Sequence[ShapeResult], emit: Emit) -> dict[str, Any]:
    """Write the engine's files; return them."""
    entries = [entry for item in shapes if (entry := item.entry)]
    if not entries:
        return {}
    pinned = ", ".join(str(item.shape) for item in shapes if item.chosen == PINNED)
    remarks = {"times": NOT_MEASURED, "compiled for": plan.device.limits.architecture} if plan.compile_only else {}
    remarks |= {"the engine's default, no config was faster": pinned} if pinned else {}
    files = plan.store.save(plan.target, plan.subject, entries, {**versions(shapes), **remarks})
    for path in files:
        for line in older_entries(path, plan.subject.backend):
            emit(Warned(line))
    if plan.store.id == TritonCache.id:
        _enter(plan.target, plan.devices != [CPU], emit)
    return {"files": tuple(files)}


def _sampling(num_iters: int | None) -> Sampling | None:
    """Return the usual sampling of a search with at least so many calls; None for the usual one."""
    if num_iters is None:
        return None
    usual = SearchSettings().sampling
    return replace(usual, min_samples=num_iters, max_samples=max(usual.max_samples, num_iters))


def _checked(plan: Plan, evaluator: Searcher, emit: Emit) -> list[ShapeResult]:
    """Check the configs of a file, without a search."""
    found, task, sizes = [], plan.task, plan.sizes
    shapes = [shape for shape in sizes.shapes if shape in sizes.configs]
    for number, shape in enumerate(shapes, start=1):
        config = suited(sizes.configs[shape], task.kernel)
        try:
            (evaluation,) = evaluator.evaluate(task.problem(shape), task.kernel, [config])
        except KernelwrightError as error:
            result = ShapeResult(shape, error=" ".join(str(error).split()))
        else:
            result = _verdict(shape, config, evaluation)
        emit(PartDone(result, number, len(shapes)))
        found.append(result)
    for shape in sizes.shapes:
        if shape not in sizes.configs:
            emit(Warned(f"{shape} has no config to check"))
    return found


def _verdict(shape: Shape, config: Config, evaluation: Evaluation) -> ShapeResult:
    """Return the result of a check of a given config."""
    if not evaluation.ok:
        return ShapeResult(shape, trials=1, error=f"{evaluation.status}: {first_message(evaluation)}")
    return ShapeResult(shape, config, "given", evaluation.latency_ms, max_error=largest_error(evaluation), trials=1)


def _cover(most: int, sweep: Sweep, emit: Emit) -> dict[str, Any]:
    """Measure every shape's winner at all other shapes; return the set of configs and its rule."""
    won = Counter(item.config for item in sweep.results if item.config is not None and item.times)
    winners = [config for config, _ in won.most_common(MAX_COVER_CANDIDATES)]
    if not winners:
        emit(Warned("nothing was timed, so no `configs` for all shapes can be chosen"))
        return {}
    with working(emit, f"measuring {len(winners)} winners at all shapes"):
        results = sweep.measure(winners)
    times = {item.shape: item.times for item in results if item.times}
    chosen = cover(times, most)
    if chosen is None:
        emit(Warned(f"no {most} configs serve all shapes: allow more `configs`"))
        return {}
    rule = fit_rule(times, chosen.configs)
    ratios = [
        row[picked] / min(row.values()) if (picked := rule.choose(shape.m, shape.n, shape.k)) in row else None
        for shape, row in times.items()
    ]
    slowdown = geomean(ratios) if all(ratios) else None
    return {"covered": chosen, "rule": rule, "rule_slowdown": slowdown}


def _enter(target: Path, timed: bool, emit: Emit) -> None:
    """Enter all times into Triton's cache."""
    document = TritonCache().parse(target / TIMES)
    if not timed or not workloads(document):
        emit(Warned("nothing was timed on a GPU, so there is no entry for Triton's cache"))
        return
    entered = enter_products(target / MODULE, FUNCTION, workloads(document))
    emit(Note(f"{len(entered)} entries in Triton's cache; import {FUNCTION} from {target / MODULE}"))


def _target(options: Options) -> Path:
    if options.output is not None:
        return options.output
    chosen = options.chosen_format
    return configs_folder() if chosen == "kernelwright" else options.results / "gemm" / chosen


def _slug(options: Options, device: Device) -> str:
    name = device.file_name.lower()
    language = "" if options.backend == TRITON else f"_{options.backend}"
    return f"{options.product}_{options.chosen_dtype}_{options.layout.lower()}_{options.chosen_format}{language}_{name}"


def versions(shapes: Sequence[ShapeResult]) -> Mapping[str, str]:
    """Return the versions that times depend on, from the process that measured, otherwise from this one."""
    measured = next((shape.environment for shape in shapes if shape.environment), {})
    names = ("triton", "tilelang", "torch", "cuda", "hip", "driver", "device")
    return {"triton": installed("triton"), **{name: measured[name] for name in names if name in measured}}
