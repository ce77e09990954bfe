"""The options of `tune mlir`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .groups import OUTPUT, WHERE, DeviceOptions, ResultOptions
from .option import described, option
from .trust import QuickOptions, SandboxOptions

MODULE = "Module"
SEARCH = "Search"
TRIALS = 64
"""Per operation, where neither the caller nor a config file names a limit."""


@dataclass(frozen=True, kw_only=True)
class MlirOptions(SandboxOptions, QuickOptions, ResultOptions, DeviceOptions):
    """Schedule the operations of an MLIR module that IREE compiles."""

    file: Path | None = field(
        default=None,
        kw_only=False,
        metadata=described("The module; by default the `input_file` of `config`.", metavar="FILE"),
    )
    config: Path | None = option(
        None, "An auto-scheduler.cfg: [Env], [SearchSpace], [SearchStrategy].", MODULE, metavar="FILE", trusted=True
    )
    function: str | None = option(None, "The function, where the module has several.", MODULE, metavar="NAME")
    chip: str | None = option(
        None,
        "Whose instructions IREE uses: host, znver4 ... for a CPU; sm_80, sm_89 ... for a GPU. By default host, or "
        "sm_80, whose code newer GPUs run too.",
        WHERE,
    )
    tuner: str | None = option(
        None, "portfolio (the default), xgboost, hill_climb, annealing, random or grid.", SEARCH, metavar="NAME"
    )
    trials: int | None = option(None, "At most this many configs per operation; by default 64.", SEARCH, at_least=1)
    seconds: float | None = option(None, "Start no trial of an operation after this time.", SEARCH, above=0)
    patience: int | None = option(
        None, "Stop after this many trials of an operation without a better one.", SEARCH, at_least=1
    )
    seed: int = option(0, "Of the tuner's choices.", SEARCH)
    compilers: int | None = option(
        None, "Processes that compile at once; by default as many as there are cores.", WHERE, at_least=1, trusted=True
    )
    compile_limit: float = option(60.0, "Seconds after which a compilation is given up.", WHERE, above=0, trusted=True)
    emit: Path | None = option(
        None, "Write every module that is tried to this folder, by the auto-scheduler's names.", OUTPUT, metavar="DIR"
    )
    dry_run: bool = option(False, "Write the space and the modules, and compile and run nothing.", OUTPUT)
    save_cmds: bool = option(False, "Write the compiler's commands, and what it said, beside the modules.", OUTPUT)

    def check(self) -> None:
        """Raise `OptionError` for what does not go together."""
        from ...core.errors import OptionError
        from ...tuners import catalogue

        super().check()
        if self.file is None and self.config is None:
            raise OptionError("there is no module", "give a FILE, or `config` auto-scheduler.cfg that names one")
        if self.tuner is not None:
            catalogue.check(self.tuner)
        if self.save_cmds and self.emit is None:
            raise OptionError("`save_cmds` writes beside the modules", "give `emit` DIR too")
