"""Options that several commands share."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from ...evaluators.remote.options import LOCAL, MODAL, RAY, RemoteOptions, choices
from .option import OUTPUT as OUTPUT
from .option import Options, described, mistake, option
from .trust import SanitizeOptions, TargetOptions

WHERE = "Where it runs"
MODEL = "Language model"
BUDGET = "Budget"
SEARCH = "Search"
FUNCTION = "A function of your own"
OPTIMIZATION = "Optimization"
MAX_BEAM = 16
NO_LIMIT = "give more, or leave it out for no limit"


class Backend(StrEnum):
    """The kernels that are shipped, by language and target."""

    TILELANG_CPU = "tilelang_cpu"
    TILELANG = "tilelang"
    TRITON = "triton"


def require_examples(name: str, folder: Path | None) -> None:
    """Raise `OptionError` for a named folder of worked examples that does not exist."""
    if folder is not None and not folder.is_dir():
        raise mistake(f"`{name}` {folder} is not a folder", "'kernelwright corpus add' makes one")


def parse_tolerance(text: str) -> tuple[float | None, float | None]:
    """Return the absolute and the relative tolerance in a text such as '1e-3,1e-2', 'rtol=1e-2' or
    'rtol=1e-2,atol=1e-3'; None for the one that is not given. Raises `ValueError`."""
    named = dict(zip(("atol", "rtol"), text.split(","), strict=False)) if "=" not in text else {}
    named = named or dict(part.strip().partition("=")[::2] for part in text.split(","))
    found = {name.strip(): float(number) for name, number in named.items()}
    whole = len(found) == text.count(",") + 1 and ("=" in text or len(found) == 2)
    if not whole or not set(found) <= {"atol", "rtol"} or not all(0 <= value < math.inf for value in found.values()):
        raise ValueError(f"{text!r} is not a tolerance")
    return found.get("atol"), found.get("rtol")


@dataclass(frozen=True, kw_only=True)
class KernelOptions(Options):
    """Which kernel."""

    kernel: str = field(
        kw_only=False,
        metadata=described(
            "The kernel: a path, level2/2_10.py, 2_10, a Solution, or a function FILE::NAME.",
            metavar="REF",
            argument=True,
        ),
    )


@dataclass(frozen=True, kw_only=True)
class DeviceOptions(Options):
    """The device."""

    device: str = option("auto", "cpu, cuda, cuda:N; auto takes a GPU if there is one.", WHERE)


@dataclass(frozen=True, kw_only=True)
class ProblemOptions(DeviceOptions):
    """Problem, sizes and device."""

    backend: Backend | None = option(None, "Backend of shipped kernels; by default the device's.", WHERE)
    problem: str | None = option(
        None, "The problem that a kernel file solves, if not clear from its name.", WHERE, trusted=True
    )
    dataset: Path | None = option(
        None, "Source of the problems: a KernelBench checkout, or a flashinfer-trace dataset.", WHERE, trusted=True
    )
    workload: str | None = option(None, "Sizes: a workload's name, or batch_size=4,dim=512.", WHERE)


@dataclass(frozen=True, kw_only=True)
class FunctionOptions(KernelOptions):
    """Reference and inputs of a user's function. `kernel` is FILE::NAME or the function itself."""

    reference: str | None = option(
        None,
        "For a function as `kernel`: the function of torch that computes the same, path/to/ops.py::swiglu_torch.",
        FUNCTION,
        metavar="FILE::NAME",
        trusted=True,
    )
    inputs: str | None = option(
        None,
        "For a function as `kernel`: the function that makes its arguments from a seed, path/to/bench.py::inputs, or a "
        "YAML file with shapes and dtypes.",
        FUNCTION,
        metavar="FILE[::NAME]",
        trusted=True,
    )

    tolerance: str | None = option(
        None,
        "For a function as `kernel`: which errors are allowed, absolute and relative, 1e-3,1e-2 or rtol=1e-2; by "
        "default those of the dtype, widened to about the errors of the unmodified function.",
        FUNCTION,
        metavar="ATOL,RTOL",
        trusted=True,
    )
    env: tuple[str, ...] = option(
        (),
        "For a function as `kernel`: an environment variable of its package, NAME or NAME=VALUE; may be repeated.",
        FUNCTION,
        metavar="NAME[=VALUE]",
        trusted=True,
    )

    def check(self) -> None:
        """Raise `OptionError` for a reference or inputs without a function, an invalid tolerance, and Modal."""
        super().check()
        if self.tolerance is not None:
            try:
                parse_tolerance(self.tolerance)
            except ValueError:
                raise mistake(
                    f"`tolerance` {self.tolerance!r} is not a tolerance",
                    "write 1e-3,1e-2 (absolute, relative) or rtol=1e-2",
                ) from None
        self._of_function("reference", "inputs", "tolerance")
        if "::" in (self.kernel or "") and getattr(self, "evaluator", LOCAL) == MODAL:
            why = f"`evaluator` {MODAL} has no packages of yours, and a function runs in its own"
            raise mistake(why, f"evaluate it here, or with {RAY} on nodes that have the package at the same path")

    def _of_function(self, *names: str) -> None:
        """Raise `OptionError` for one of these options if the kernel is not a function."""
        named = next((name for name in names if getattr(self, name) not in (None, False)), None)
        if named is not None and "::" not in (self.kernel or ""):
            raise mistake(f"`{named}` belongs to a function", "name it in `kernel` as path/to/ops.py::swiglu")


@dataclass(frozen=True, kw_only=True)
class ReturnOptions(FunctionOptions):
    """How the result is returned to the user's package."""

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
        """Raise `OptionError` if a patch is requested for a kernel that is not a function."""
        super().check()
        self._of_function("patch", "triton_cache")
        if self.patch is not None and self.patch.is_dir():
            raise mistake(f"`patch` {self.patch} is a folder", "name a file in it, such as out.diff")


@dataclass(frozen=True, kw_only=True)
class MachineOptions(DeviceOptions):
    """Which machines evaluate."""

    evaluator: str = option(LOCAL, "Where kernels run: {choices}.", WHERE, choices=choices, trusted=True)
    gpu: str | None = option(
        None,
        "Modal's GPU: T4, L4, A10 (also A10G), L40S, A100, H100, H200, B200 ...; H100 by default. With --device cpu "
        "the GPU that Triton's interpreter reports to launchers.",
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
        """Return the remote options; None for this machine. Raises `OptionError` for contradictory options."""
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
        None, "URL of an OpenAI-compatible server.", MODEL, metavar="URL", of_models=True, trusted=True
    )
    wait: bool = option(
        True, "With files:DIR, end with exit code 75 when a reply is missing; `resume` goes on.", MODEL, of_models=True
    )


@dataclass(frozen=True, kw_only=True)
class EarlierRunsOptions(Options):
    """Use of earlier runs."""

    archive: bool = option(True, "Neither use nor extend the archive of earlier runs.", OUTPUT)
    examples: Path | None = option(
        None,
        "A folder of worked examples in addition to the shipped ones, written by 'kernelwright corpus add'; by default "
        "the user's own.",
        OUTPUT,
        metavar="DIR",
        of_models=True,
        trusted=True,
    )

    @property
    def own_examples(self) -> Path:
        """A further folder of examples, which may be missing."""
        from ...core.files import own_examples

        return self.examples or own_examples()

    def check(self) -> None:
        """Raise `OptionError` for a folder that is not there."""
        super().check()
        require_examples("examples", self.examples)


@dataclass(frozen=True, kw_only=True)
class BudgetOptions(Options):
    """Limits of a run."""

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
    """Where a run writes its files."""

    results: Path = option(Path("results"), "Folder for a run's files.", OUTPUT)
    resume: bool = option(False, "Continue where an earlier run stopped.", OUTPUT, trusted=True)


@dataclass(frozen=True, kw_only=True)
class SaveOptions(ResultOptions):
    """Whether the faster kernel is written."""

    save: bool = option(True, "Do not write the faster kernel.", OUTPUT)


@dataclass(frozen=True, kw_only=True)
class RunOptions(
    SaveOptions,
    EarlierRunsOptions,
    BudgetOptions,
    ModelOptions,
    TargetOptions,
    SanitizeOptions,
    MachineOptions,
    ProblemOptions,
):
    """How kernels are made faster over several turns."""

    target_speedup: float | None = option(
        None,
        "Stop when this speedup is reached; `against` says over what. 1.5 by default for a kernel; the first kernel of "
        "a module is optimized until nothing is left to try.",
        OPTIMIZATION,
        above=0,
    )
    max_iterations: int | None = option(
        None,
        "At most this many turns; 5 by default with a language model, while rules go on until nothing is left to try.",
        OPTIMIZATION,
        above=0,
        trusted=True,
    )
    max_trials: int | None = option(
        None, "Stop proposing after this many evaluations.", BUDGET, at_least=1, advice=NO_LIMIT, trusted=True
    )
    min_improvement: float = option(
        0.05,
        "Stop after three turns in a row that improve by less.",
        OPTIMIZATION,
        at_least=0,
        at_most=10,
        advice="it is a share such as 0.05",
    )
    beam: int = option(
        1, "Candidates kept alive and expanded side by side.", OPTIMIZATION, at_least=1, at_most=MAX_BEAM, trusted=True
    )
    analysis_model: str | None = option(
        None, "Another model for the analysis of bottlenecks.", MODEL, of_models=True, trusted=True
    )
    temperature: float | None = option(
        None, "The model's temperature; by default the provider's own.", MODEL, at_least=0, at_most=2, of_models=True
    )
    rag_k: int | None = option(
        None, "Worked examples shown to the model; 3 by default.", MODEL, at_least=0, at_most=20, of_models=True
    )
    program: Path | None = option(
        None,
        "Instructions that 'kernelwright agent compile' saved.",
        MODEL,
        metavar="FILE",
        of_models=True,
        trusted=True,
    )
