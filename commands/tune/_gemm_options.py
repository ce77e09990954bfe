"""The options of `tune gemm`, and the sizes, problem, kernel and baseline that they select."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core import Budget, OptionError, TorchProblem, Value
from ...core.text import listed
from ...corpus import find_kernel, find_problem
from ...runtime.options.groups import OUTPUT, SEARCH, WHERE, Backend, DeviceOptions, ResultOptions
from ...runtime.options.option import described, option
from ...runtime.options.trust import TRUST, TimingOptions
from ...tuners import catalogue
from ...tuners.gemm.device import BLOCK_FORMATS, Device
from ...tuners.gemm.library import is_there, library_kernel, library_problem
from ...tuners.gemm.lookup import WIDTHS
from ...tuners.gemm.shapes import LAYOUTS, Shape, parse_shape
from ...tuners.gemm.sizes import Routing, Sizes, read_sizes
from ...tuners.gemm.stores import names, store_of
from ...tuners.gemm.stores.store import BLOCKSCALE, GEMM, TRITON
from ...tuners.gemm.task import Task

SHAPES = "Shapes"
MOE = "moe"
FP8 = "float8_e4m3fn"
DTYPES = {
    "gemm": ("float16", "bfloat16", FP8),
    "a8w8_blockscale": ("bfloat16", "float16"),
    **dict.fromkeys(BLOCK_FORMATS, ("bfloat16", "float16")),
    MOE: ("bfloat16", "float16", FP8),
}
"""Dtypes by product: of the operands (gemm), of the weights (moe), or of the result. The first is the default."""
SHORT = {"fp16": "float16", "bf16": "bfloat16", "fp8": FP8}
"""Other spellings."""
YAML = (".yaml", ".yml")
MEASURED_ONLY = ("kernelwright", "triton-cache")
"""Formats that operators read on this machine, so that unmeasured choices would take effect unseen."""


@dataclass(frozen=True, kw_only=True)
class Options(TimingOptions, DeviceOptions, ResultOptions):
    """Tune a matrix product over a table of shapes, and write an engine's config files."""

    product: str = field(
        default="gemm",
        kw_only=False,
        metadata=described(
            "gemm, a8w8_blockscale (fp8 with scales per 1x128 and 128x128 block), mxfp8, nvfp4 (scales per 32 and 16 "
            "along K), or moe (a mixture of experts).",
            metavar="PRODUCT",
        ),
    )
    sizes: Path | None = option(
        None,
        "A YAML or JSON file: [{M: .., N: .., K: ..}, ...], [[[16, 32], N, K], ...], or an earlier result.",
        SHAPES,
        metavar="FILE",
        also=("--gemm_size_file",),
    )
    m: tuple[int, ...] = option((), "Rows of A, or tokens; may be repeated.", SHAPES, also=("-m",))
    n: int | None = option(None, "Columns of B; for moe the intermediate size of an expert.", SHAPES, also=("-n",))
    k: int | None = option(None, "Columns of A; for moe the hidden size.", SHAPES, also=("-k",))
    experts: int | None = option(None, "For moe: number of experts, if the file of sizes has no E.", SHAPES, at_least=1)
    top_k: int | None = option(
        None, "For moe: experts per token, if the file of sizes has no TOP_K.", SHAPES, at_least=1
    )
    layout: str = option(
        "TN", "Layout of A and B: T is row-major, N column-major. Linear layers have TN.", SHAPES, metavar="TT|TN|NT|NN"
    )
    dtype: str | None = option(
        None,
        "fp16, bf16 or fp8 (float8_e4m3fn); for moe the dtype of the weights, fp8 with a scale per 128x128; for "
        "a8w8_blockscale, mxfp8 and nvfp4 the dtype of the result, fp16 or bf16.",
        SHAPES,
    )
    trials: int = option(50, "At most this many configs per shape.", SEARCH, at_least=1)
    seconds: float | None = option(None, "Start no trial of a shape after this time.", SEARCH, above=0)
    patience: int | None = option(
        None, "Stop after this many trials of a shape without a better one.", SEARCH, at_least=1
    )
    tuner: str = option("portfolio", "{choices}.", SEARCH, choices=catalogue.choices)
    seed: int = option(0, "Random seed of the tuner.", SEARCH)
    configs: int | None = option(
        None,
        "Also choose the set of at most this many configs that loses least over all shapes, and a rule.",
        SEARCH,
        at_least=1,
        at_most=5,
    )
    backend: Backend = option(
        Backend.TRITON,
        "The language of the kernel: triton, or tilelang, whose configs only `format` kernelwright can store.",
        SEARCH,
        metavar="triton|tilelang",
    )
    device: str = option("auto", "cpu (a check of the files), cuda, cuda:N, or several GPUs: cuda:0,cuda:1.", WHERE)
    arch: str | None = option(
        None, "With `compile_only`: an architecture that need not be here, such as gfx942 or sm_100.", WHERE
    )
    compile_only: bool = option(
        False,
        "Choose for `arch` by the analytic model and by registers, spills, LDS and matrix instructions of compiled "
        "code; nothing runs, and nothing is measured.",
        WHERE,
        also=("--compile_only",),
    )
    compilers: int | None = option(None, "Processes that compile, per device.", WHERE, at_least=1, trusted=True)
    compile_limit: float = option(60.0, "Seconds after which a compilation is ended.", WHERE, above=0, trusted=True)
    num_iters: int | None = option(
        None, "At least this many timed calls per config; by default until the median is precise.", TRUST, at_least=1,
        also=("--num_iters",),
    )  # fmt: skip
    atol: float | None = option(None, "Absolute tolerance of the results.", TRUST, above=0, trusted=True)
    rtol: float | None = option(None, "Relative tolerance of the results.", TRUST, above=0, trusted=True)
    format: str | None = option(
        None,
        "kernelwright (read by its own operators), aiter, aiter-legacy, vllm, sglang, tune-gemm or triton-cache; by "
        "default tune-gemm for a YAML `output`, else kernelwright.",
        OUTPUT,
        trusted=True,
    )
    output: Path | None = option(
        None, "Folder of the engine's files; for tune-gemm a YAML file.", OUTPUT, metavar="PATH",
        also=("--tuning_results_file",),
    )  # fmt: skip
    compare: bool = option(False, "Show the largest error of each choice; every config is checked anyway.", OUTPUT)
    compare_wo_tuning: bool = option(
        False, "Only check the configs in the file of sizes.", OUTPUT, also=("--compare_wo_tuning",)
    )
    benchmark: bool = option(
        False,
        "For fp8 operands, show cuBLAS's bf16 product, too; wider operands are always compared with cuBLAS.",
        OUTPUT,
    )

    @property
    def chosen_dtype(self) -> str:
        """The requested dtype, or the product's default."""
        return SHORT.get(self.dtype, self.dtype) if self.dtype else DTYPES[self.product][0]

    @property
    def chosen_format(self) -> str:
        """The requested format, or the one that follows from the name of the output."""
        named = self.output is not None and self.output.suffix in YAML
        return self.format or ("tune-gemm" if named else "kernelwright")

    def check(self) -> None:
        """Raise `OptionError` for options that contradict each other."""
        super().check()
        if self.product not in DTYPES:
            raise OptionError(f"there is no product {self.product!r}", f"use {listed(DTYPES, 'or')}")
        self._check_sizes()
        if self.chosen_dtype not in DTYPES[self.product]:
            allowed = DTYPES[self.product]
            raise OptionError(
                f"`dtype` {self.dtype!r} is not supported for {self.product}", f"use {listed(allowed, 'or')}"
            )
        catalogue.check(self.tuner)
        self._check_format()
        self._check_architecture()
        if self.compare_wo_tuning and self.sizes is None:
            raise OptionError("`compare_wo_tuning` checks the configs of a file", "give it as `sizes`")

    def _check_architecture(self) -> None:
        if not self.compile_only:
            if self.arch is not None:
                raise OptionError("`arch` goes with `compile_only`", "to measure, run on a GPU of it")
            return
        if self.arch is None:
            raise OptionError("`compile_only` needs an `arch`", "such as gfx942, gfx950, gfx1201, sm_90 or sm_100")
        if self.backend is not Backend.TRITON:
            raise OptionError("`compile_only` is for Triton's kernels", "use `backend` triton")
        if self.product in BLOCK_FORMATS:
            raise OptionError(
                f"no `format` holds choices of {self.product} that were not measured", "leave out `compile_only`"
            )
        if self.compare_wo_tuning or self.configs is not None or self.benchmark:
            raise OptionError("`compare_wo_tuning`, `configs` and `benchmark` measure", "leave out `compile_only`")
        if self.chosen_format in MEASURED_ONLY:
            raise OptionError(
                f"`format` {self.chosen_format} holds what was measured, and `compile_only` measures nothing",
                "use `format` aiter, aiter-legacy, tune-gemm, vllm or sglang",
            )

    def _check_sizes(self) -> None:
        if self.sizes is not None and (self.m or self.n is not None or self.k is not None):
            raise OptionError("`sizes` and `m`, `n`, `k` exclude each other")
        if self.sizes is None and not (self.m and self.n is not None and self.k is not None):
            raise OptionError("there are no sizes", "give `sizes` FILE, or all of `m`, `n` and `k`")
        routed = self.experts is not None, self.top_k is not None
        if any(routed) and self.product != MOE:
            raise OptionError("`experts` and `top_k` belong to moe")
        if self.product == MOE and self.sizes is None and not all(routed):
            raise OptionError("moe needs `experts` and `top_k`, too", "for Mixtral 8x7B 8 and 2")
        if self.layout not in LAYOUTS:
            raise OptionError(f"`layout` {self.layout!r} is not known", f"use {listed(LAYOUTS, 'or')}")
        if self.product != "gemm" and self.layout != "TN":
            raise OptionError(f"`layout` {self.layout}: {self.product} takes weights as (N, K) only", "use TN")

    def _check_format(self) -> None:
        store = store_of(self.chosen_format)
        if self.product not in store.kernels:
            fitting = [name for name in names() if self.product in store_of(name).kernels]
            raise OptionError(
                f"`format` {self.chosen_format} has no files of {self.product}", f"use {listed(fitting, 'or')}"
            )
        only_triton = self.product in (MOE, *BLOCK_FORMATS)
        if self.backend is Backend.TILELANG_CPU or (self.backend is Backend.TILELANG and only_triton):
            raise OptionError(f"there is no {self.product} in `backend` {self.backend}", "use triton")
        if self.backend is not Backend.TRITON and not store.variants:
            raise OptionError(f"`format` {self.chosen_format} is for Triton's kernels", "use kernelwright")


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
    """Return the task. Problems take their sizes from the shape."""
    product, dtype = options.product, options.chosen_dtype
    kernel = find_kernel(f"gemm/{product}", options.backend).read()
    problem = find_problem(f"gemm/{product}").read().tolerating(options.atol, options.rtol)
    # The dtype of the result if the operands' dtype is given. For experts the dtype of the weights decides.
    named = "OUT" if product in (BLOCKSCALE, *BLOCK_FORMATS) else "DTYPE"
    if named in kernel.config:
        kernel = kernel.bind({named: dtype})

    def at(shape: Shape) -> TorchProblem:
        if shape.k % (length := BLOCK_FORMATS.get(product, 1)):
            raise OptionError(f"K={shape.k} is not a multiple of {length}, for which {product} has a scale", "pad it")
        sizes: dict[str, Value] = {**shape.sizes, named: dtype}
        return problem.resized(str(shape), {**sizes, "LAYOUT": shape.layout} if product == GEMM else sizes)

    operands = FP8 if product == BLOCKSCALE else product if product in BLOCK_FORMATS else dtype
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
        baseline=_cublas() if options.benchmark and operands in (FP8, *BLOCK_FORMATS) and product != MOE else None,
        library=_scaled_mm(at, dtype) if product == BLOCKSCALE and timed and is_there(device.limits) else None,
        # If nothing must be widened first, the reference of a single product is one call of cuBLAS.
        reference_is_baseline=product == GEMM and operands != FP8,
    )


def _scaled_mm(at: Callable[[Shape], TorchProblem], out: str) -> Callable[[Shape], tuple[TorchProblem, Any]]:
    """Return the problem whose reference is the library's block-scaled product, and a kernel for it."""
    kernel = library_kernel(find_kernel(f"gemm/{BLOCKSCALE}", TRITON).read().bind({"OUT": out}))
    return lambda shape: (library_problem(at(shape)), kernel)


def _cublas() -> Callable[[Shape], tuple[TorchProblem, Any]]:
    """Return the problem whose reference is cuBLAS's product in bf16, and a kernel for it."""
    plain, kernel = find_problem("gemm/gemm").read(), find_kernel("gemm/gemm", TRITON).read()

    def at(shape: Shape) -> tuple[TorchProblem, Any]:
        sizes = {**shape.sizes, "DTYPE": "bfloat16", "LAYOUT": shape.layout}
        return plain.resized(str(shape), sizes), kernel

    return at
