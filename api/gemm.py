"""`tune gemm`: tune a matrix product over a table of shapes, and write an engine's files."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..core import Budget, Config, OptionError, TorchProblem, Value
from ..core.files import write_whole
from ..core.problem import Tolerance
from ..corpus import find_kernel, find_problem
from ..evaluators.settings import Sampling, SearchSettings
from ..tuners import catalogue
from ..tuners.gemm.cover import cover
from ..tuners.gemm.device import H200_LIMITS, Device
from ..tuners.gemm.lookup import WIDTHS, configs_folder, installed
from ..tuners.gemm.result import ShapeResult
from ..tuners.gemm.rule import fit_rule
from ..tuners.gemm.shapes import Shape, Sizes, parse_shape, read_sizes
from ..tuners.gemm.stores import store_of
from ..tuners.gemm.stores.store import BLOCKSCALE, Entry, Subject
from ..tuners.gemm.stores.triton_cache import FUNCTION, MODULE, TIMES, TritonCache, workloads
from ..tuners.gemm.sweep import Sweep
from ..tuners.gemm.task import Task
from .devices import CPU, choose_devices, device_label, device_limits
from .evaluators import Searcher, search_evaluator
from .gemm_result import GemmResult, geomean
from .observers import GemmObserver
from .options.gemm import GemmOptions
from .triton_cache import enter_products

FP8 = "float8_e4m3fn"
WINNERS = 12
"""Configs, best at the most shapes, that are measured at all shapes, for a set that serves them all."""


def run_gemm(options: GemmOptions, observer: GemmObserver) -> GemmResult:
    """Tune every shape, or check the configs of a file; write the results, also those of an interrupted sweep."""
    sizes = sizes_of(options)
    for line in sizes.refused:
        observer.warn(f"left out: {line}")
    devices = choose_devices(options)
    device = device_of(devices[0])
    task = task_of(options, device, devices != [CPU])
    device.require(task.dtype)
    subject = Subject(options.product, task.dtype, device, options.layout)
    store, target = store_of(options.format), _target(options)
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
            checked = _checked(options, task, evaluators[0], sizes, observer)
            return GemmResult(options, device.name, folder, tuple(checked), sizes.refused)
        # A file that cannot be merged is an error now, not after hours.
        for path in store.grouped(target, subject, [Entry(one, Config()) for one in sizes.shapes]):
            if path.exists():
                store.parse(path)
        catalogue.preload(options.tuner)
        sweep = Sweep(task, evaluators, folder, observer, options.resume)
        result = GemmResult(options, device.name, folder, (), sizes.refused)
        try:
            sweep.run(sizes.shapes)
            if options.configs is not None:
                result = _few(options.configs, sweep, result, observer)
        finally:
            result = replace(result, shapes=tuple(sweep.results))
            if entries := [entry for one in result.shapes if (entry := one.entry)]:
                files = store.save(target, subject, entries, versions(result.shapes))
                result = replace(result, files=tuple(files))
                if store.id == TritonCache.id:
                    _enter(target, devices != [CPU], observer)
    if (few := result.few()) is not None:
        write_whole(folder / "configs.json", json.dumps(few, indent=1) + "\n")
    return result


def sizes_of(options: GemmOptions) -> Sizes:
    """Return the shapes that the options name."""
    if options.sizes is None:
        return Sizes(tuple(parse_shape(m, options.n, options.k, options.layout) for m in options.m), {})
    sizes = read_sizes(options.sizes, options.layout)
    if options.format == "tune-gemm":
        return sizes  # its file names the layout of each
    other = [shape for shape in sizes.shapes if shape.layout != options.layout]
    if len(other) == len(sizes.shapes):
        raise OptionError(
            f"{options.sizes} has sizes of layout {other[0].layout} only", f"use `layout` {other[0].layout}"
        )
    kept = tuple(shape for shape in sizes.shapes if shape.layout == options.layout)
    refused = [f"{shape} has layout {shape.layout}; tune it with `layout` {shape.layout}" for shape in other]
    return Sizes(kept, sizes.configs, (*sizes.refused, *refused))


def device_of(name: str) -> Device:
    """Return what files and estimates know of a device; a CPU has an H200's limits, to check files with."""
    if name == CPU:
        return Device("cpu", H200_LIMITS)
    return Device(device_label(name), device_limits(name))


def task_of(options: GemmOptions, device: Device, timed: bool) -> Task:
    """Return what is tuned; problems take their sizes from the shape."""
    kernel = find_kernel(f"gemm/{options.product}", "triton").read()
    problem = _tolerant(find_problem(f"gemm/{options.product}").read(), options)
    blockscale, dtype = options.product == BLOCKSCALE, options.chosen_dtype
    if blockscale:
        kernel = kernel.bind({"OUT": dtype})
    fixed: dict[str, Value] = {"OUT": dtype} if blockscale else {"DTYPE": dtype}

    def at(shape: Shape) -> TorchProblem:
        sizes = {"M": shape.m, "N": shape.n, "K": shape.k, **fixed}
        return problem.resized(str(shape), sizes if blockscale else {**sizes, "LAYOUT": shape.layout})

    plain, product = find_problem("gemm/gemm").read(), find_kernel("gemm/gemm", "triton").read()
    operands = FP8 if blockscale else dtype
    wide = "bfloat16" if operands == FP8 else operands

    def cublas(shape: Shape) -> tuple[TorchProblem, Any]:
        sizes = {"M": shape.m, "N": shape.n, "K": shape.k, "DTYPE": wide, "LAYOUT": shape.layout}
        return plain.resized(str(shape), sizes), product

    return Task(
        kernel,
        at,
        device.limits,
        operands,
        WIDTHS[operands],
        tuner=options.tuner,
        seed=options.seed,
        budget=Budget(trials=options.trials, seconds=options.seconds),
        patience=options.patience,
        timed=timed,
        baseline=cublas if options.benchmark and operands == FP8 else None,
        # Where nothing has to be widened first, the reference is one call of cuBLAS.
        reference_is_baseline=operands != FP8,
    )


def _tolerant(problem: TorchProblem, options: GemmOptions) -> TorchProblem:
    """The problem with the tolerances that were asked for."""
    if options.atol is None and options.rtol is None:
        return problem
    tolerances = {
        dtype: Tolerance(options.atol or given.absolute, options.rtol or given.relative)
        for dtype, given in problem.tolerances.items()
    }
    return replace(problem, tolerances=tolerances)


def evaluator_of(options: GemmOptions, device: str) -> Searcher:
    """Return the evaluator of a sweep on one device."""
    sampling: Sampling | None = None
    if options.num_iters is not None:
        usual = SearchSettings().sampling
        most = max(usual.max_samples, options.num_iters)
        sampling = replace(usual, min_samples=options.num_iters, max_samples=most)
    adaptive = catalogue.adaptive(options.tuner)
    return search_evaluator([device], options.compilers, adaptive, options.compile_limit, options, None, sampling)


def _checked(
    options: GemmOptions, task: Task, evaluator: Searcher, sizes: Sizes, observer: GemmObserver
) -> list[ShapeResult]:
    """Check the configs of a file, without a search."""
    found = []
    shapes = [shape for shape in sizes.shapes if shape in sizes.configs]
    for number, shape in enumerate(shapes, start=1):
        config = sizes.configs[shape]
        (one,) = evaluator.evaluate(task.problem(shape), task.kernel, [config])
        error = "" if one.ok else f"{one.status}: {one.message}"
        largest = one.correctness.max_rel_error if one.correctness else None
        result = ShapeResult(
            shape, config if one.ok else None, "given", one.latency_ms, max_error=largest, trials=1, error=error
        )
        observer.shape_ended(result, number, len(shapes), 0.0)
        found.append(result)
    for shape in sizes.shapes:
        if shape not in sizes.configs:
            observer.warn(f"{shape} has no config to check")
    return found


def _few(most: int, sweep: Sweep, result: GemmResult, observer: GemmObserver) -> GemmResult:
    """Measure every shape's winner at all other shapes, and choose the set and its rule."""
    won = Counter(one.config for one in sweep.results if one.config is not None and one.times)
    winners = [config for config, _ in won.most_common(WINNERS)]
    if not winners:
        observer.warn("nothing was timed, so no `configs` for all shapes can be chosen")
        return result
    with observer.working(f"measuring {len(winners)} winners at all shapes"):
        results = sweep.measure(winners)
    times = {one.shape: one.times for one in results if one.times}
    chosen = cover(times, most)
    if chosen is None:
        observer.warn(f"no {most} configs serve all shapes: allow more `configs`")
        return result
    rule = fit_rule(times, chosen.configs)
    ratios = [
        row[picked] / min(row.values()) if (picked := rule.choose(one.m, one.n, one.k)) in row else None
        for one, row in times.items()
    ]
    slowdown = geomean(ratios) if all(ratios) else None
    return replace(result, covered=chosen, rule=rule, rule_slowdown=slowdown)


def _enter(target: Path, timed: bool, observer: GemmObserver) -> None:
    """Enter all times into Triton's cache."""
    document = TritonCache().parse(target / TIMES)
    if not timed or not workloads(document):
        observer.warn("nothing was timed on a GPU, so there is no entry for Triton's cache")
        return
    entered = enter_products(target / MODULE, workloads(document))
    observer.note(f"{len(entered)} entries in Triton's cache; import {FUNCTION} from {target / MODULE}")


def _target(options: GemmOptions) -> Path:
    if options.output is not None:
        return options.output
    return configs_folder() if options.format == "kernelwright" else options.results / "gemm" / options.format


def _slug(options: GemmOptions, device: Device) -> str:
    name = device.file_name.lower()
    return f"{options.product}_{options.chosen_dtype}_{options.layout.lower()}_{options.format}_{name}"


def versions(shapes: Sequence[ShapeResult]) -> Mapping[str, str]:
    """Return what the times depend on: those of the process that measured, else those of this one."""
    measured = next((one.environment for one in shapes if one.environment), {})
    names = ("triton", "torch", "cuda", "driver", "device")
    return {"triton": installed("triton"), **{name: measured[name] for name in names if name in measured}}
