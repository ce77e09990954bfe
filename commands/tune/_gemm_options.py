"""The options of `tune gemm`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ...api.options.groups import OUTPUT, SEARCH, WHERE, Backend, DeviceOptions, ResultOptions
from ...api.options.option import described, option
from ...api.options.trust import TRUST, TimingOptions
from ...core import OptionError
from ...tuners import catalogue
from ...tuners.gemm.shapes import LAYOUTS
from ...tuners.gemm.stores import names, store_of

SHAPES = "Shapes"
MOE = "moe"
FP8 = "float8_e4m3fn"
DTYPES = {
    "gemm": ("float16", "bfloat16", FP8),
    "a8w8_blockscale": ("bfloat16", "float16"),
    MOE: ("bfloat16", "float16", FP8),
}
"""The products. Of the operands; of a8w8_blockscale's result; of moe's weights. The first is the default."""
SHORT = {"fp16": "float16", "bf16": "bfloat16", "fp8": FP8}
"""Other spellings."""
YAML = (".yaml", ".yml")


@dataclass(frozen=True, kw_only=True)
class Options(TimingOptions, DeviceOptions, ResultOptions):
    """Tune a matrix product over a table of shapes, and write an engine's config files."""

    product: str = field(
        default="gemm",
        kw_only=False,
        metadata=described(
            "gemm, a8w8_blockscale (fp8 with scales per 1x128 and 128x128 block), or moe (a mixture of experts).",
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
    n: int | None = option(
        None, "Columns of B; of moe what lies between an expert's two products.", SHAPES, also=("-n",)
    )
    k: int | None = option(None, "Columns of A; of moe the numbers of a token.", SHAPES, also=("-k",))
    experts: int | None = option(None, "Of moe, where the file of sizes names no E.", SHAPES, at_least=1)
    top_k: int | None = option(
        None, "Of moe: experts of each token, where the file of sizes names no TOP_K.", SHAPES, at_least=1
    )
    layout: str = option(
        "TN",
        "Of A and B: T is row-major, N column-major. Linear layers have TN.",
        SHAPES,
        metavar="TT|TN|NT|NN",
    )
    dtype: str | None = option(
        None,
        "fp16, bf16 or fp8 (float8_e4m3fn); of moe that of the weights, fp8 with a scale per 128x128; of "
        "a8w8_blockscale that of the result, fp16 or bf16.",
        SHAPES,
    )
    trials: int = option(50, "At most this many configs per shape.", SEARCH, at_least=1)
    seconds: float | None = option(None, "Start no trial of a shape after this time.", SEARCH, above=0)
    patience: int | None = option(
        None, "Stop after this many trials of a shape without a better one.", SEARCH, at_least=1
    )
    tuner: str = option("portfolio", "portfolio, xgboost, hill_climb, annealing, random or grid.", SEARCH)
    seed: int = option(0, "Of the tuner's choices.", SEARCH)
    configs: int | None = option(
        None,
        "Also choose the set of at most this many configs that loses least over all shapes, and a rule.",
        SEARCH,
        at_least=1,
        at_most=5,
    )
    backend: Backend = option(
        Backend.TRITON,
        "The language of the kernel: triton, or tilelang, whose configs only `format` kernelwright holds.",
        SEARCH,
        metavar="triton|tilelang",
    )
    device: str = option("auto", "cpu (a check of the files), cuda, cuda:N, or several GPUs: cuda:0,cuda:1.", WHERE)
    compilers: int | None = option(None, "Processes that compile, per device.", WHERE, at_least=1, trusted=True)
    compile_limit: float = option(60.0, "Seconds after which a compilation is given up.", WHERE, above=0, trusted=True)
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
        False, "Only check the configs that the file of sizes has.", OUTPUT, also=("--compare_wo_tuning",)
    )
    benchmark: bool = option(
        False, "For fp8 operands, show cuBLAS's bf16 product, too; wider ones always stand beside cuBLAS.", OUTPUT
    )

    @property
    def chosen_dtype(self) -> str:
        """The dtype that was asked for, or the product's own."""
        return SHORT.get(self.dtype, self.dtype) if self.dtype else DTYPES[self.product][0]

    @property
    def chosen_format(self) -> str:
        """The format that was asked for, or the one that the name of the output says."""
        named = self.output is not None and self.output.suffix in YAML
        return self.format or ("tune-gemm" if named else "kernelwright")

    def check(self) -> None:
        """Raise `OptionError` for what does not go together."""
        super().check()
        if self.product not in DTYPES:
            raise OptionError(f"there is no product {self.product!r}", _use(DTYPES))
        self._check_sizes()
        if self.chosen_dtype not in DTYPES[self.product]:
            allowed = DTYPES[self.product]
            raise OptionError(f"`dtype` {self.dtype!r} is none of {self.product}'s", _use(allowed))
        catalogue.check(self.tuner)
        self._check_format()
        if self.compare_wo_tuning and self.sizes is None:
            raise OptionError("`compare_wo_tuning` checks the configs of a file", "give it as `sizes`")

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
            raise OptionError(f"`layout` {self.layout!r} is not known", _use(LAYOUTS))
        if self.product != "gemm" and self.layout != "TN":
            raise OptionError(f"`layout` {self.layout}: {self.product} takes weights as (N, K) only", "use TN")

    def _check_format(self) -> None:
        store = store_of(self.chosen_format)
        if self.product not in store.kernels:
            fitting = [name for name in names() if self.product in store_of(name).kernels]
            raise OptionError(f"`format` {self.chosen_format} has no files of {self.product}", _use(fitting))
        if self.backend is Backend.TILELANG_CPU or (self.backend is Backend.TILELANG and self.product == MOE):
            raise OptionError(f"there is no {self.product} in `backend` {self.backend}", "use triton")
        if self.backend is not Backend.TRITON and not store.variants:
            raise OptionError(f"`format` {self.chosen_format} is for Triton's kernels", "use kernelwright")


def _use(choices: Iterable[str]) -> str:
    """'use a, b or c'."""
    *others, last = choices
    return f"use {', '.join(others)} or {last}" if others else f"use {last}"
