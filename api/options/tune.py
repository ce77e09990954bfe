"""The options of `tune replay` and `tune export`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .option import Options, described, option


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
