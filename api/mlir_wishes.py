"""What `tune mlir` was asked for: its options, and what a config file says where these are silent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..core import OptionError
from ..tuners import catalogue
from ..tuners.mlir.cfg import read_cfg
from .options.mlir import TRIALS, MlirOptions


@dataclass(frozen=True)
class Wishes:
    """Which module, which space, which search."""

    file: Path
    tuner: str
    trials: int
    ranges: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Values by parameter; empty for a derived space."""
    csv: Path | None = None
    """Where else the trials go: the `output_file`."""

    @classmethod
    def of(cls, options: MlirOptions) -> Wishes:
        """Return what the options say, else the config file, else the defaults. Raises `OptionError` for neither."""
        given = read_cfg(options.config) if options.config is not None else None
        file = options.file or (given.input_file if given else None)
        if file is None:
            raise OptionError(f"`config` {options.config} names no input_file", "give a FILE, or add it to [Env]")
        tuner = options.tuner or (given.tuner if given else None) or catalogue.DEFAULT
        trials = options.trials or (given.trials if given else None) or TRIALS
        return cls(file, tuner, trials, given.ranges if given else {}, given.output_file if given else None)
