"""The options of `check`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .groups import OUTPUT, ProblemOptions
from .option import described, option
from .trust import TimingOptions

COMPARISON = "Comparison"


@dataclass(frozen=True, kw_only=True)
class CheckOptions(TimingOptions, ProblemOptions):
    """Check kernels, and compare their speed with what was stored of the same device."""

    files: tuple[str, ...] = field(
        kw_only=False,
        metadata=described("Kernels: paths, or level2/2_10.py, 2_10 for shipped ones.", metavar="FILE..."),
    )
    baseline_file: Path | None = option(
        None,
        "The stored figures, a file to keep beside the kernels in version control. Without it only correctness counts.",
        COMPARISON,
        metavar="FILE",
    )
    record: bool = option(
        False, "Store the figures in `baseline_file` instead of comparing; other entries stay.", COMPARISON
    )
    tolerance: float = option(
        0.05,
        "How much slower a kernel may be beyond the intervals of both figures: 0.05 is 5 %.",
        COMPARISON,
        at_least=0,
        at_most=0.9,
        advice="it is a share such as 0.05",
    )
    junit: Path | None = option(None, "Write the results as JUnit XML.", OUTPUT, metavar="FILE")
    summary: Path | None = option(
        None,
        "Write the results as Markdown; they are appended to the file that GITHUB_STEP_SUMMARY names anyway.",
        OUTPUT,
        metavar="FILE",
    )

    def check(self) -> None:
        """Raise `OptionError` for what does not go together."""
        from ...core.errors import OptionError

        super().check()
        if not self.files:
            raise OptionError("there is nothing to check", "name kernels")
        if self.problem is not None and len(self.files) > 1:
            raise OptionError(
                "`problem` names one problem", "'Problem Name: ...' in a kernel's docstring names its own"
            )
        if self.record and self.baseline_file is None:
            raise OptionError("`record` needs a file to write", "give `baseline_file`")
        for name in ("baseline_file", "junit", "summary"):
            path: Path | None = getattr(self, name)
            if path is not None and path.is_dir():
                raise OptionError(f"`{name}` {path} is a folder", "name a file")
