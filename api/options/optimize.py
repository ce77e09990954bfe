"""The options of `optimize`, `batch` and `list_slow`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .groups import (
    BUDGET,
    MODEL,
    NO_LIMIT,
    BudgetOptions,
    EarlierRunsOptions,
    MachineOptions,
    ModelOptions,
    ProblemOptions,
    ReturnOptions,
    SaveOptions,
)
from .option import described, option
from .trust import TargetOptions, TimingOptions

SEARCH = "Optimization"
MAX_BEAM = 16


@dataclass(frozen=True, kw_only=True)
class RunOptions(
    SaveOptions, EarlierRunsOptions, BudgetOptions, ModelOptions, TargetOptions, MachineOptions, ProblemOptions
):
    """How kernels are made faster over several turns."""

    target_speedup: float = option(1.5, "Stop when this speedup is reached; `against` says over what.", SEARCH, above=0)
    max_iterations: int | None = option(
        None,
        "At most this many turns; 5 by default with a language model, while rules go on until nothing is left to try.",
        SEARCH,
        above=0,
        trusted=True,
    )
    max_trials: int | None = option(
        None, "Stop proposing after this many evaluations.", BUDGET, at_least=1, advice=NO_LIMIT, trusted=True
    )
    min_improvement: float = option(
        0.05,
        "Stop after three turns in a row that improve by less.",
        SEARCH,
        at_least=0,
        at_most=10,
        advice="it is a share such as 0.05",
    )
    beam: int = option(
        1, "Candidates kept alive and expanded side by side.", SEARCH, at_least=1, at_most=MAX_BEAM, trusted=True
    )
    analysis_model: str | None = option(
        None, "Another model for the analysis of bottlenecks.", MODEL, of_models=True, trusted=True
    )
    temperature: float | None = option(
        None,
        "The model's temperature; by default the provider's own (the seed system used 1.0).",
        MODEL,
        at_least=0,
        at_most=2,
        of_models=True,
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


@dataclass(frozen=True, kw_only=True)
class OptimizeOptions(RunOptions, ReturnOptions):
    """Make one kernel faster over several turns."""

    kernel: str = field(
        default="",
        kw_only=False,
        metadata=described(
            "The kernel: a path, level2/2_10.py, 2_10, a Solution, or a function FILE::NAME. On a GPU also a problem "
            "without a kernel: its first one is made of torch.compile's code.",
            metavar="REF",
            trusted=True,
        ),
    )

    @property
    def named(self) -> str:
        """The kernel, or the problem alone."""
        return self.kernel or self.problem or ""

    def check(self) -> None:
        """Raise `OptionError` where nothing is named."""
        from ...core.errors import OptionError

        super().check()
        if not self.named:
            raise OptionError("nothing to optimize is named", "give `kernel`, or `problem` with a PyTorch module")


@dataclass(frozen=True, kw_only=True)
class BatchOptions(RunOptions):
    """Make many kernels faster, one after the other."""

    kernels: tuple[str, ...] = field(kw_only=False, metadata=described("The kernels, each named as for `kernel`."))

    def check(self) -> None:
        """Raise `OptionError` for what does not go together."""
        from ...core.errors import OptionError

        super().check()
        if not self.kernels:
            raise OptionError("the batch names no kernels", "name one a line, such as level2/2_10.py")
        if self.problem:
            raise OptionError("`problem` names one problem", "leave it out of a batch")


@dataclass(frozen=True, kw_only=True)
class ListSlowOptions(TimingOptions, ProblemOptions):
    """Measure kernels and rank them, the slowest first; with a `dataset` also its problems without a kernel."""

    threshold: float = option(0.8, "Speedup below which a kernel is listed.", above=0)
    folder: Path | None = option(
        None,
        "With --list-slow: list the kernels in this folder and those below it, not the shipped ones. A results folder "
        "has optimized ones.",
        metavar="DIR",
    )
    resume: bool = option(False, "Continue where an earlier run stopped.", trusted=True)
    again: bool = option(False, "Measure again what other processes disturbed, instead of showing the marked record.")
