"""The options of `plan`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .groups import FunctionOptions, ProblemOptions
from .option import option
from .trust import TrustOptions


@dataclass(frozen=True, kw_only=True)
class PlanOptions(TrustOptions, ProblemOptions, FunctionOptions):
    """Show what one call of a kernel launches."""

    save_plan: Path | None = option(
        None, "Write the plan to this folder: JSON, constants and code, without the kernel's Python.", metavar="DIR"
    )
