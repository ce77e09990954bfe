"""The plan of `tune mlir`: options, and defaults from the config file of an auto-scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...core import OptionError
from ...evaluators.settings import Sandbox
from ...runtime import command
from ...runtime.devices import CUDA
from ...runtime.options.groups import OUTPUT, WHERE, DeviceOptions, ResultOptions
from ...runtime.options.option import described, option
from ...runtime.options.trust import QuickOptions, SandboxOptions
from ...runtime.runtime import Runtime
from ...tuners import catalogue
from ...tuners.mlir.cfg import read_cfg

MODULE = "Module"
SEARCH = "Search"
TRIALS = 64
"""Default limit per operation."""


@dataclass(frozen=True, kw_only=True)
class Options(SandboxOptions, QuickOptions, ResultOptions, DeviceOptions):
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
        "Target of IREE's code: host, znver4 ... for a CPU; sm_80, sm_89 ... for a GPU. By default host, or "
        "sm_80, whose code newer GPUs run too.",
        WHERE,
    )
    tuner: str | None = option(None, "{choices}; portfolio by default.", SEARCH, choices=catalogue.choices)
    trials: int | None = option(None, "At most this many configs per operation; by default 64.", SEARCH, at_least=1)
    seconds: float | None = option(None, "Start no trial of an operation after this time.", SEARCH, above=0)
    patience: int | None = option(
        None, "Stop after this many trials of an operation without a better one.", SEARCH, at_least=1
    )
    seed: int = option(0, "Random seed of the tuner.", SEARCH)
    compilers: int | None = option(
        None, "Processes that compile at once; by default as many as there are cores.", WHERE, at_least=1, trusted=True
    )
    compile_limit: float = option(60.0, "Seconds after which a compilation is ended.", WHERE, above=0, trusted=True)
    emit: Path | None = option(
        None, "Write every module that is tried to this folder, by the auto-scheduler's names.", OUTPUT, metavar="DIR"
    )
    dry_run: bool = option(False, "Write the space and the modules, and compile and run nothing.", OUTPUT)
    save_cmds: bool = option(False, "Write the compiler's commands and output next to the modules.", OUTPUT)

    def check(self) -> None:
        """Raise `OptionError` for options that contradict each other."""
        super().check()
        if self.file is None and self.config is None:
            raise OptionError("there is no module", "give a FILE, or `config` auto-scheduler.cfg that names one")
        if self.tuner is not None:
            catalogue.check(self.tuner)
        if self.save_cmds and self.emit is None:
            raise OptionError("`save_cmds` writes next to the modules", "give `emit` DIR too")


@dataclass(frozen=True)
class Plan(command.Plan):
    """Module, space, search and files."""

    file: Path
    function: str | None
    device: str
    chip: str | None
    tuner: str
    trials: int
    """Per operation."""
    seconds: float | None
    """Per operation."""
    patience: int | None
    seed: int
    ranges: Mapping[str, tuple[int, ...]]
    """Values by parameter; empty for a derived space."""
    csv: Path | None
    """Where else the trials go: the `output_file`."""
    compilers: int | None
    compile_limit: float
    emit: Path | None
    """Where modules that are tried go."""
    save_cmds: bool
    dry_run: bool
    results: Path
    resume: bool
    quick: bool
    sandbox: Sandbox


def plan(options: Options, runtime: Runtime) -> Plan:
    """Return the settings of the options, then of the config file, then the defaults.

    Raises `OptionError` without a module.
    """
    given = read_cfg(options.config) if options.config is not None else None
    file = options.file or (given.input_file if given else None)
    if file is None:
        raise OptionError(f"`config` {options.config} names no input_file", "give a FILE, or add it to [Env]")
    # A dry run needs no device.
    here = options.dry_run and options.device.partition(":")[0] == CUDA
    return Plan.of(
        options,
        file=file,
        device=options.device if here else runtime.device(options),
        tuner=options.tuner or (given.tuner if given else None) or catalogue.DEFAULT,
        trials=options.trials or (given.trials if given else None) or TRIALS,
        ranges=given.ranges if given else {},
        csv=given.output_file if given else None,
    )
