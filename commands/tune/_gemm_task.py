"""What `tune gemm` tunes, from its options: sizes, problem, kernel, baseline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...core import Budget, OptionError, TorchProblem, Value
from ...core.problem import Tolerance
from ...corpus import find_kernel, find_problem
from ...tuners.gemm.device import Device
from ...tuners.gemm.lookup import WIDTHS
from ...tuners.gemm.shapes import Shape, parse_shape
from ...tuners.gemm.sizes import Routing, Sizes, read_sizes
from ...tuners.gemm.stores.store import BLOCKSCALE, GEMM, TRITON
from ...tuners.gemm.task import Task
from ._gemm_options import FP8, MOE, Options


def sizes_of(options: Options) -> Sizes:
    """Return the shapes that the options name."""
    routing = Routing(options.experts, options.top_k) if options.product == MOE else None
    if options.sizes is None:
        experts = routing.of({}) if routing else (0, 0)
        shapes = (parse_shape(m, options.n, options.k, options.layout, *experts) for m in options.m)
        return Sizes(tuple(shapes), {})
    sizes = read_sizes(options.sizes, options.layout, routing)
    if options.chosen_format == "tune-gemm" or options.compare_wo_tuning:
        return sizes  # each may have a layout of its own
    other = [shape for shape in sizes.shapes if shape.layout != options.layout]
    if len(other) == len(sizes.shapes):
        raise OptionError(
            f"{options.sizes} has sizes of layout {other[0].layout} only", f"use `layout` {other[0].layout}"
        )
    kept = tuple(shape for shape in sizes.shapes if shape.layout == options.layout)
    refused = [f"{shape} has layout {shape.layout}; tune it with `layout` {shape.layout}" for shape in other]
    return Sizes(kept, sizes.configs, (*sizes.refused, *refused))


def task_of(options: Options, device: Device, timed: bool) -> Task:
    """Return what is tuned; problems take their sizes from the shape."""
    product, dtype = options.product, options.chosen_dtype
    kernel = find_kernel(f"gemm/{product}", options.backend).read()
    problem = _tolerant(find_problem(f"gemm/{product}").read(), options)
    # The result's dtype, where the operands' is given; of experts the weights' decides.
    named = "OUT" if product == BLOCKSCALE else "DTYPE"
    if named in kernel.config:
        kernel = kernel.bind({named: dtype})

    def at(shape: Shape) -> TorchProblem:
        sizes: dict[str, Value] = {**shape.sizes, named: dtype}
        return problem.resized(str(shape), {**sizes, "LAYOUT": shape.layout} if product == GEMM else sizes)

    operands = FP8 if product == BLOCKSCALE else dtype
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
        tolerances={name: value for name in ("atol", "rtol") if (value := getattr(options, name)) is not None},
        baseline=_cublas() if options.benchmark and operands == FP8 and product != MOE else None,
        # Where nothing has to be widened first, the reference of a single product is one call of cuBLAS.
        reference_is_baseline=product == GEMM and operands != FP8,
    )


def _cublas() -> Callable[[Shape], tuple[TorchProblem, Any]]:
    """Return the problem whose reference is cuBLAS's product in bf16, and a kernel for it."""
    plain, kernel = find_problem("gemm/gemm").read(), find_kernel("gemm/gemm", TRITON).read()

    def at(shape: Shape) -> tuple[TorchProblem, Any]:
        sizes = {**shape.sizes, "DTYPE": "bfloat16", "LAYOUT": shape.layout}
        return plain.resized(str(shape), sizes), kernel

    return at


def _tolerant(problem: TorchProblem, options: Options) -> TorchProblem:
    """The problem with the tolerances that were asked for."""
    if options.atol is None and options.rtol is None:
        return problem
    tolerances = {
        dtype: Tolerance(options.atol or given.absolute, options.rtol or given.relative)
        for dtype, given in problem.tolerances.items()
    }
    return replace(problem, tolerances=tolerances)
