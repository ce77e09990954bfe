"""Options that several commands share."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from ...evaluators.remote.options import RemoteOptions, Where
from .option import Options, described, option

WHERE = "Where it runs"
MODEL = "Language model"
BUDGET = "Budget"
OUTPUT = "Output"
SEARCH = "Search"
FUNCTION = "A function of your own"
NO_LIMIT = "give more, or leave it out for no limit"


class Backend(StrEnum):
    """The kernels that are shipped, by language and target."""

    TILELANG_CPU = "tilelang_cpu"
    TILELANG = "tilelang"
    TRITON = "triton"


@dataclass(frozen=True, kw_only=True)
class KernelOptions(Options):
    """Which kernel."""

    kernel: str = field(
        kw_only=False,
        metadata=described(
            "The kernel: a path, level2/2_10.py, 2_10, a Solution, or a function FILE::NAME.", metavar="REF"
        ),
    )


@dataclass(frozen=True, kw_only=True)
class DeviceOptions(Options):
    """The device."""

    device: str = option("auto", "cpu, cuda, cuda:N; auto takes a GPU if there is one.", WHERE)


@dataclass(frozen=True, kw_only=True)
class ProblemOptions(DeviceOptions):
    """What is computed, at which sizes, and where."""

    backend: Backend | None = option(None, "Which shipped kernels; by default those of the device.", WHERE)
    problem: str | None = option(
        None, "The problem that a kernel file solves, if its name does not show it.", WHERE, trusted=True
    )
    dataset: Path | None = option(
        None, "Where the problems are: a KernelBench checkout, or a flashinfer-trace dataset.", WHERE, trusted=True
    )
    workload: str | None = option(None, "Sizes: a workload's name, or batch_size=4,dim=512.", WHERE)


@dataclass(frozen=True, kw_only=True)
class FunctionOptions(KernelOptions):
    """What a function of the user's own is judged by; `kernel` names it as FILE::NAME, or is the function itself."""

    reference: str | None = option(
        None,
        "For a function as `kernel`: the function of torch that computes the same, path/to/ops.py::swiglu_torch.",
        FUNCTION,
        metavar="FILE::NAME",
        trusted=True,
    )
    inputs: str | None = option(
        None,
        "For a function as `kernel`: what makes its arguments from a seed, path/to/bench.py::inputs, or a YAML file "
        "with shapes and dtypes.",
        FUNCTION,
        metavar="FILE[::NAME]",
        trusted=True,
    )

    def check(self) -> None:
        """Raise `OptionError` for a reference or inputs without a function."""
        from ...core.errors import OptionError

        super().check()
        named = next((name for name in ("reference", "inputs") if getattr(self, name) is not None), None)
        if named is not None and "::" not in (self.kernel or ""):
            raise OptionError(f"`{named}` belongs to a function", "name it in `kernel` as path/to/ops.py::swiglu")


@dataclass(frozen=True, kw_only=True)
class ReturnOptions(FunctionOptions):
    """How the result comes back into the user's package."""

    patch: Path | None = option(
        None,
        "For a function as `kernel`: write the result as a change of its own files, for 'git apply'.",
        FUNCTION,
        metavar="FILE",
    )
    triton_cache: bool = option(
        False,
        "For a function as `kernel`: enter the tuned configs into Triton's cache on disk, on a GPU, so that its "
        "autotuner takes them without benchmarks.",
        FUNCTION,
        trusted=True,
    )

    def check(self) -> None:
        """Raise `OptionError` for a way back of what is no function."""
        from ...core.errors import OptionError

        super().check()
        if (self.patch is not None or self.triton_cache) and "::" not in self.kernel:
            named = "patch" if self.patch is not None else "triton_cache"
            raise OptionError(f"`{named}` belongs to a function", "name it in `kernel` as path/to/ops.py::swiglu")
        if self.patch is not None and self.patch.is_dir():
            raise OptionError(f"`patch` {self.patch} is a folder", "name a file in it, such as out.diff")


@dataclass(frozen=True, kw_only=True)
class MachineOptions(DeviceOptions):
    """Which machines evaluate."""

    evaluator: Where = option(
        Where.LOCAL,
        "Evaluator: local (this machine), modal (containers on Modal), or ray (the nodes of a Ray cluster).",
        WHERE,
        trusted=True,
    )
    gpu: str | None = option(
        None,
        "Modal's GPU: T4, L4, A10 (also A10G), L40S, A100, H100, H200, B200 ...; H100 by default.",
        WHERE,
        trusted=True,
    )
    ray_address: str | None = option(
        None,
        "The Ray cluster's address; by default RAY_ADDRESS, or the cluster on this machine.",
        WHERE,
        metavar="HOST:PORT",
        trusted=True,
    )

    @property
    def remote(self) -> RemoteOptions | None:
        """None for this machine. Raises `OptionError` for what does not go together."""
        return RemoteOptions.checked(self.evaluator, self.gpu, self.ray_address, self.device)

    def check(self) -> None:
        """See `remote`."""
        super().check()
        _ = self.remote


@dataclass(frozen=True, kw_only=True)
class ModelOptions(Options):
    """Which language model proposes."""

    model: str | None = option(
        None,
        "Proposer: openai/o3 or any provider/name, replay:FILE, files:DIR, or rules (the built-in rewriter). By "
        "default openai/o3 if OPENAI_API_KEY is set, else rules.",
        MODEL,
        trusted=True,
    )
    api_base: str | None = option(
        None, "URL of an OpenAI-compatible server of your own.", MODEL, metavar="URL", of_models=True, trusted=True
    )
    wait: bool = option(
        True,
        "With files:DIR, end with exit code 75 when a reply is missing; `resume` goes on.",
        MODEL,
        of_models=True,
    )


@dataclass(frozen=True, kw_only=True)
class EarlierRunsOptions(Options):
    """What earlier runs taught."""

    archive: bool = option(True, "Neither use nor extend the archive of what earlier runs learned.", OUTPUT)
    examples: Path | None = option(
        None,
        "A folder of worked examples beside the shipped ones, as 'kernelwright corpus add' fills it; by default the "
        "user's own.",
        OUTPUT,
        metavar="DIR",
        of_models=True,
        trusted=True,
    )

    @property
    def own_examples(self) -> Path:
        """The folder of examples beside the shipped ones, which may be missing."""
        from ...core.files import own_examples

        return self.examples or own_examples()

    def check(self) -> None:
        """Raise `OptionError` for a folder that is not there."""
        from ...core.errors import OptionError

        super().check()
        if self.examples is not None and not self.examples.is_dir():
            raise OptionError(f"`examples` {self.examples} is no folder", "'kernelwright corpus add' makes one")


@dataclass(frozen=True, kw_only=True)
class BudgetOptions(Options):
    """What a run may use."""

    max_tokens: int | None = option(
        None,
        "Stop when models have used this many tokens.",
        BUDGET,
        above=0,
        advice=NO_LIMIT,
        of_models=True,
        trusted=True,
    )
    max_cost: float | None = option(
        None,
        "Stop when models have cost this many dollars.",
        BUDGET,
        above=0,
        advice=NO_LIMIT,
        of_models=True,
        trusted=True,
    )
    time_limit: float | None = option(
        None, "Stop proposing after this many seconds.", BUDGET, above=0, advice=NO_LIMIT, trusted=True
    )


@dataclass(frozen=True, kw_only=True)
class ResultOptions(Options):
    """Where a run leaves its files."""

    results: Path = option(Path("results"), "Folder for all that a run leaves.", OUTPUT)
    resume: bool = option(False, "Continue where an earlier run stopped.", OUTPUT, trusted=True)


@dataclass(frozen=True, kw_only=True)
class SaveOptions(ResultOptions):
    """Whether the faster kernel is written."""

    save: bool = option(True, "Do not write the faster kernel.", OUTPUT)
