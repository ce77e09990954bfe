"""What the user asked for, checked before any work starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..core.errors import OptionError
from .machines import HERE, Machines
from .trust import TRUSTED, Trust

MOST_LANES = 16


@dataclass(frozen=True)
class Request:
    """The options of a command. Impossible values raise `OptionError`."""

    kernel: str | None = None
    list_slow: bool = False
    batch: str | None = None
    threshold: float = 0.8
    format: str | None = None
    target_speedup: float = 1.5
    max_iterations: int = 5
    min_improvement: float = 0.05
    device: str = "auto"
    backend: str | None = None
    problem: str | None = None
    dataset: Path | None = None
    workload: str | None = None
    machines: Machines = HERE
    model: str | None = None
    analysis_model: str | None = None
    api_base: str | None = None
    temperature: float | None = None
    rag_k: int | None = None
    program: Path | None = None
    wait: bool = True
    beam: int = 1
    max_tokens: int | None = None
    max_cost: float | None = None
    time_limit: float | None = None
    trust: Trust = TRUSTED
    results: Path = Path("results")
    resume: bool = False
    save: bool = True
    json: bool = False
    quiet: bool = False
    verbose: bool = False

    def check(self) -> None:
        """Raise `OptionError` for what cannot be done."""
        chosen = [name for name in ("kernel", "list_slow", "batch") if getattr(self, name)]
        if len(chosen) != 1:
            raise OptionError("give one of --kernel REF, --list-slow or --batch FILE; see --help")
        positive = {
            "--threshold": self.threshold,
            "--target-speedup": self.target_speedup,
            "--max-iterations": self.max_iterations,
        }
        for option, value in positive.items():
            if not value > 0 or value == float("inf"):
                raise OptionError(f"{option} must be above 0, not {value:g}")
        if not 0 <= self.min_improvement < 10:
            raise OptionError(f"--min-improvement is a share such as 0.05, not {self.min_improvement:g}")
        if self.quiet and self.verbose:
            raise OptionError("--quiet and --verbose exclude each other")
        if self.format and not self.list_slow:
            raise OptionError("--format belongs to --list-slow; use --json for a run")
        if self.batch and self.problem:
            raise OptionError("--problem names one problem; it does not go with --batch")
        self._check_budgets()
        self._check_model()
        if self.machines.remote(self.device) is not None and self.list_slow:
            raise OptionError("--list-slow measures on this machine; --evaluator goes with --kernel and --batch")

    def _check_budgets(self) -> None:
        limits = {"--max-tokens": self.max_tokens, "--max-cost": self.max_cost, "--time-limit": self.time_limit}
        for option, value in limits.items():
            if value is not None and not 0 < value < float("inf"):
                raise OptionError(
                    f"{option} {value:g} leaves nothing to work with; give more, or leave it out for no limit"
                )
        if not 1 <= self.beam <= MOST_LANES:
            raise OptionError(f"--beam must be from 1 to {MOST_LANES}, not {self.beam}")

    def _check_model(self) -> None:
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            raise OptionError(f"--temperature must be from 0 to 2, not {self.temperature:g}")
        if self.rag_k is not None and not 0 <= self.rag_k <= 20:
            raise OptionError(f"--rag-k must be from 0 to 20, not {self.rag_k}")
