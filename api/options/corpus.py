"""The options of `verify_corpus`, `add_example`, `import_runs` and `list_examples`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from .groups import OUTPUT, WHERE, Backend, DeviceOptions
from .option import Options, described, option
from .trust import QuickOptions


def require_folder(folder: Path | None) -> None:
    """Raise `OptionError` for a folder of examples that is named and not there."""
    from ...core.errors import OptionError

    if folder is not None and not folder.is_dir():
        raise OptionError(f"`folder` {folder} is no folder", "'kernelwright corpus add' makes one")


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(QuickOptions, DeviceOptions):
    """Check and measure the worked examples, and the shipped kernels."""

    examples: tuple[str, ...] = field(
        default=(),
        kw_only=False,
        metadata=described("Examples, such as triton/softmax-online; all by default."),
    )
    folder: Path | None = option(
        None, "Folder of examples, as 'corpus add' fills it; by default the shipped ones.", metavar="DIR"
    )
    kernels: bool = option(False, "Check every shipped kernel that the device can run too, and time it.")
    record: Path | None = option(None, "File for the metrics; models see those in corpus/examples/measured.json.")

    def check(self) -> None:
        """Raise `OptionError` for a folder that is not there."""
        super().check()
        require_folder(self.folder)


@dataclass(frozen=True, kw_only=True)
class AddOptions(Options):
    """Make a worked example of a run's verified improvement."""

    run: str = field(
        kw_only=False,
        metadata=described(
            "The journal of a run, a results folder with one run, or a run's sixteen digits in the archive.",
            metavar="RUN",
        ),
    )
    folder: Path | None = option(
        None, "Folder of examples to write to, such as one shared by a team; by default the user's own.", OUTPUT
    )
    name: str | None = option(None, "The example's name; by default of its problem and technique.", OUTPUT)
    technique: tuple[str, ...] = option(
        (), "A technique that made it faster; may be repeated. By default those that its strategies name.", OUTPUT
    )
    problem: str | None = option(
        None, "The problem that the run solved, if its id does not lead to it.", WHERE, trusted=True
    )
    dataset: Path | None = option(None, "A KernelBench checkout with the problem.", WHERE, trusted=True)

    def check(self) -> None:
        """Raise `OptionError` for a name that is none of a folder."""
        from ...core.errors import OptionError

        super().check()
        if self.name is not None and not re.fullmatch(r"[A-Za-z0-9][\w-]*", self.name):
            raise OptionError(f"`name` {self.name!r}", "use letters, digits and hyphens")


@dataclass(frozen=True, kw_only=True)
class ImportOptions(Options):
    """Enter runs of others, or of before journals were signed, into the archive."""

    runs: tuple[Path, ...] = field(
        kw_only=False,
        metadata=described("Journals of runs, or results folders with some.", metavar="RUN..."),
    )


@dataclass(frozen=True, kw_only=True)
class ListOptions(Options):
    """List worked examples."""

    folder: Path | None = option(None, "A folder of examples; by default the shipped ones and the user's own.")
    backend: Backend | None = option(None, "Examples of one backend; by default all.")

    def check(self) -> None:
        """Raise `OptionError` for a folder that is not there."""
        super().check()
        require_folder(self.folder)
