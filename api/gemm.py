"""`tune gemm`: tune a matrix product over a table of shapes, and write an engine's files."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..core import Config, Evaluation, KernelwrightError, OptionError
from ..core.events import Emit, Note, PartDone, Warned, working
from ..core.files import write_whole
from ..evaluators.local import LocalEvaluator
from ..evaluators.settings import Limits, Sampling, SearchSettings, Settings
from ..tuners import catalogue
from ..tuners.gemm.cover import cover
from ..tuners.gemm.device import H200_LIMITS, Device
from ..tuners.gemm.fields import suited
from ..tuners.gemm.lookup import configs_folder, installed
from ..tuners.gemm.outcome import first_message, largest_error
from ..tuners.gemm.result import ShapeResult
from ..tuners.gemm.rule import fit_rule
from ..tuners.gemm.shapes import Shape
from ..tuners.gemm.sizes import Sizes
from ..tuners.gemm.stores import store_of
from ..tuners.gemm.stores.store import TRITON, Subject
from ..tuners.gemm.stores.triton_cache import FUNCTION, MODULE, TIMES, TritonCache, workloads
from ..tuners.gemm.sweep import Sweep
from ..tuners.gemm.task import Task
from .devices import CPU, choose_devices, device_label, device_limits
from .evaluators import Searcher, search_evaluator
from .gemm_result import GemmResult, geomean
from .gemm_task import sizes_of, task_of
from .options.gemm import GemmOptions
from .options.trust import settings_of
from .triton_cache import enter_products

WINNERS = 12
"""Configs, best at the most shapes, that are measured at all shapes, for a set that serves them all."""


def run_gemm(options: GemmOptions, emit: Emit) -> GemmResult:
    """Tune every shape, or check the configs of a file; write the results, also those of an interrupted sweep."""
    sizes = sizes_of(options)
    for line in sizes.refused:
        emit(Warned(f"left out: {line}"))
    devices = choose_devices(options)
    device = device_of(devices[0])
    if other := next((one for one in devices if device_of(one) != device), None):
        raise OptionError(f"{other} is another kind of GPU than {devices[0]}", "tune on each by itself")
    task = task_of(options, device, devices != [CPU])
    device.require(task.dtype)
    if not task.timed and options.backend != TRITON:
        raise OptionError("TileLang's matrix products run on a GPU only", "check files with `backend` triton")
    subject = Subject(options.product, task.dtype, device, options.layout, options.backend, installed(TRITON))
    store, target = store_of(options.chosen_format), _target(options)
    store.check(subject)
    folder = options.results / "gemm" / _slug(options, device)
    task = replace(task, fixed=store.fixed(subject))
    if options.compare_wo_tuning and not sizes.configs:
        raise OptionError(f"{options.sizes} has no configs to check", "give a result of `format` tune-gemm")
    with contextlib.ExitStack() as stack:
        evaluators = [evaluator_of(options, one) for one in devices]
        for evaluator in evaluators:
            stack.enter_context(evaluator)
        if options.compare_wo_tuning:
            checked = _checked(options, task, evaluators[0], sizes, emit)
            return GemmResult(options, device.name, folder, tuple(checked), sizes.refused)
        store.prepare(target, subject, sizes.shapes)
        catalogue.preload(options.tuner)
        sweep = Sweep(task, evaluators, folder, emit, options.resume)
        result = GemmResult(options, device.name, folder, (), sizes.refused)
        try:
            sweep.run(sizes.shapes)
            if options.configs is not None:
                result = _few(options.configs, sweep, result, emit)
        finally:
            result = replace(result, shapes=tuple(sweep.results))
            if entries := [entry for one in result.shapes if (entry := one.entry)]:
                files = store.save(target, subject, entries, versions(result.shapes))
                result = replace(result, files=tuple(files))
                if store.id == TritonCache.id:
                    _enter(target, devices != [CPU], emit)
    if (few := result.few()) is not None:
        write_whole(folder / "configs.json", json.dumps(few, indent=1) + "\n")
    return result


def device_of(name: str) -> Device:
    """Return what files and estimates know of a device; a CPU has an H200's limits, to check files with."""
    if name == CPU:
        return Device("cpu", H200_LIMITS)
    return Device(device_label(name), device_limits(name))


def evaluator_of(options: GemmOptions, device: str) -> Searcher:
    """Return the evaluator of a sweep on one device."""
    sampling: Sampling | None = None
    if options.num_iters is not None:
        usual = SearchSettings().sampling
        most = max(usual.max_samples, options.num_iters)
        sampling = replace(usual, min_samples=options.num_iters, max_samples=most)
    adaptive = catalogue.adaptive(options.tuner)
    settings = settings_of(options, Settings(limits=Limits(compile_s=options.compile_limit)))
    found = search_evaluator([device], options.compilers, adaptive, settings, None, sampling)
    if options.benchmark and isinstance(found, LocalEvaluator):
        found.processes.keep(2)  # cuBLAS may be another problem's reference
    return found


def _checked(options: GemmOptions, task: Task, evaluator: Searcher, sizes: Sizes, emit: Emit) -> list[ShapeResult]:
    """Check the configs of a file, without a search."""
    found = []
    shapes = [shape for shape in sizes.shapes if shape in sizes.configs]
    for number, shape in enumerate(shapes, start=1):
        config = suited(sizes.configs[shape], task.kernel)
        try:
            (one,) = evaluator.evaluate(task.problem(shape), task.kernel, [config])
        except KernelwrightError as error:
            result = ShapeResult(shape, error=" ".join(str(error).split()))
        else:
            result = _verdict(shape, config, one)
        emit(PartDone(result, number, len(shapes)))
        found.append(result)
    for shape in sizes.shapes:
        if shape not in sizes.configs:
            emit(Warned(f"{shape} has no config to check"))
    return found


def _verdict(shape: Shape, config: Config, one: Evaluation) -> ShapeResult:
    """Return what a check of a given config came to."""
    if not one.ok:
        return ShapeResult(shape, trials=1, error=f"{one.status}: {first_message(one)}")
    return ShapeResult(shape, config, "given", one.latency_ms, max_error=largest_error(one), trials=1)


def _few(most: int, sweep: Sweep, result: GemmResult, emit: Emit) -> GemmResult:
    """Measure every shape's winner at all other shapes, and choose the set and its rule."""
    won = Counter(one.config for one in sweep.results if one.config is not None and one.times)
    winners = [config for config, _ in won.most_common(WINNERS)]
    if not winners:
        emit(Warned("nothing was timed, so no `configs` for all shapes can be chosen"))
        return result
    with working(emit, f"measuring {len(winners)} winners at all shapes"):
        results = sweep.measure(winners)
    times = {one.shape: one.times for one in results if one.times}
    chosen = cover(times, most)
    if chosen is None:
        emit(Warned(f"no {most} configs serve all shapes: allow more `configs`"))
        return result
    rule = fit_rule(times, chosen.configs)
    ratios = [
        row[picked] / min(row.values()) if (picked := rule.choose(one.m, one.n, one.k)) in row else None
        for one, row in times.items()
    ]
    slowdown = geomean(ratios) if all(ratios) else None
    return replace(result, covered=chosen, rule=rule, rule_slowdown=slowdown)


def _enter(target: Path, timed: bool, emit: Emit) -> None:
    """Enter all times into Triton's cache."""
    document = TritonCache().parse(target / TIMES)
    if not timed or not workloads(document):
        emit(Warned("nothing was timed on a GPU, so there is no entry for Triton's cache"))
        return
    entered = enter_products(target / MODULE, workloads(document))
    emit(Note(f"{len(entered)} entries in Triton's cache; import {FUNCTION} from {target / MODULE}"))


def _target(options: GemmOptions) -> Path:
    if options.output is not None:
        return options.output
    chosen = options.chosen_format
    return configs_folder() if chosen == "kernelwright" else options.results / "gemm" / chosen


def _slug(options: GemmOptions, device: Device) -> str:
    name = device.file_name.lower()
    language = "" if options.backend == TRITON else f"_{options.backend}"
    return f"{options.product}_{options.chosen_dtype}_{options.layout.lower()}_{options.chosen_format}{language}_{name}"


def versions(shapes: Sequence[ShapeResult]) -> Mapping[str, str]:
    """Return what the times depend on: those of the process that measured, else those of this one."""
    measured = next((one.environment for one in shapes if one.environment), {})
    names = ("triton", "tilelang", "torch", "cuda", "driver", "device")
    return {"triton": installed("triton"), **{name: measured[name] for name in names if name in measured}}
