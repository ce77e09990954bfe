"""The options of `tune`, `replay` and `export`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .groups import OUTPUT, WHERE, MachineOptions, ProblemOptions, ReturnOptions, SaveOptions
from .option import Options, described, option
from .trust import TimingOptions

if TYPE_CHECKING:
    from ...core import Budget

SPACE = "Search space"
SEARCH = "Search"
TRIALS = 200
"""Of a search whose tuner does not end by itself, where the caller names no limit."""


@dataclass(frozen=True, kw_only=True)
class TuneOptions(SaveOptions, TimingOptions, MachineOptions, ProblemOptions, ReturnOptions):
    """Search the parameters of a kernel."""

    kernel: str = field(
        kw_only=False,
        metadata=described("Kernel to tune: a path, level1/1_1.py, 1_1, or a function FILE::NAME.", metavar="REF"),
    )
    params: Mapping[str, Sequence[Any]] | Sequence[str] | None = option(
        None, "A parameter and its values; replaces a declared one.", SPACE, metavar="NAME=A,B,C", python_only=True
    )
    """By name, such as `{"BLOCK_M": [32, 64]}`, or texts such as 'BLOCK_M=32,64'. A command line gives the latter."""
    constraint: tuple[str, ...] = option((), "An expression that every config must satisfy.", SPACE, metavar="EXPR")
    prune: bool = option(True, "Keep configs that the device cannot run.", SPACE)
    tuner: str = option("portfolio", "portfolio, xgboost, hill_climb, annealing, random or grid.", SEARCH)
    stride: int | None = option(None, "Of the grid: every N-th config first.", SEARCH, metavar="N", at_least=1)
    trials: int | None = option(None, "At most this many configs; by default 200, for grid all.", SEARCH, at_least=1)
    seconds: float | None = option(None, "Start no trial after this time.", SEARCH, above=0)
    patience: int | None = option(None, "Stop after this many trials without a better one.", SEARCH, at_least=1)
    seed: int = option(0, "Of the tuner's choices.", SEARCH)
    warm: tuple[Path, ...] = option(
        (), "A journal or recording of the same parameters elsewhere.", SEARCH, metavar="FILE"
    )
    device: str = option("auto", "cpu, cuda, cuda:N, or several GPUs: cuda:0,cuda:1.", WHERE)
    compilers: int | None = option(
        None,
        "Processes that compile, per device; by default its share of the cores, or half of it on a GPU where the next "
        "choice depends on the last result.",
        WHERE,
        at_least=1,
        trusted=True,
    )
    compile_limit: float = option(120.0, "Seconds after which a compilation is given up.", WHERE, above=0, trusted=True)
    plot: bool = option(False, "Write the convergence curve as PNG.", OUTPUT)

    @property
    def budget(self) -> Budget:
        """When the search ends."""
        from ...core import Budget
        from ...tuners import catalogue

        trials = None if catalogue.exhaustive(self.tuner) else TRIALS
        return Budget(trials=trials if self.trials is None else self.trials, seconds=self.seconds)

    def check(self) -> None:
        """Raise `OptionError` for what does not go together."""
        from ...core.errors import OptionError
        from ...core.extras import require_extra
        from ...tuners import catalogue

        super().check()
        catalogue.check(self.tuner)
        if self.stride is not None and not catalogue.exhaustive(self.tuner):
            raise OptionError(f"`stride` is for the grid, and the tuner is {self.tuner}", "use `tuner` grid")
        if self.plot:
            require_extra("`plot`", "matplotlib", "plots")


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(Options):
    """Let tuners search a recorded space."""

    file: Path = field(
        kw_only=False,
        metadata=described("A recorded search: CSV, journal, Kernel Tuner cache or T4 results; may be gzipped."),
    )
    tuner: tuple[str, ...] = option((), "A tuner to replay; several times for several. By default all.")
    seeds: int = option(30, "Searches per tuner, each from its own seed.", at_least=1)
    budget: int = option(500, "Unique evaluations per search.", at_least=1)
    warm: Path | None = option(
        None, "A recording of the same parameters on another GPU or shape to learn from.", metavar="FILE"
    )
    batch: int = option(1, "Configs that a tuner returns at a time.", at_least=1)

    def check(self) -> None:
        """Raise `OptionError` for a tuner that is not there."""
        from ...tuners import catalogue

        super().check()
        for name in self.tuner:
            catalogue.check(name)


@dataclass(frozen=True, kw_only=True)
class ExportOptions(Options):
    """Write a recorded search in another form."""

    journal: Path = field(kw_only=False, metadata=described("A recorded search in any readable form."))
    csv: Path | None = option(None, "Write a CSV; packed if it ends in .gz.", metavar="FILE")
    t4: Path | None = option(None, "Write T4 results as JSON; packed if it ends in .gz.", metavar="FILE")
    kernel: str | None = option(None, "Of a journal with several kernels, the digest of the one.", metavar="DIGEST")

    def check(self) -> None:
        """Raise `OptionError` for targets that cannot be."""
        from ...core.errors import OptionError

        super().check()
        targets = [path for path in (self.csv, self.t4) if path is not None]
        if not targets or self.csv == self.t4:
            raise OptionError("there is no file to write", "give `csv` FILE, `t4` FILE, or both with different files")
        if any(path.resolve() == self.journal.resolve() for path in targets):
            raise OptionError(f"{self.journal} would be overwritten", "choose another file to write")
