"""What the user asked for, checked before any work starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..core.errors import OptionError

RULES = "rules"


@dataclass(frozen=True)
class Request:
    """The options of a command. Impossible values raise `OptionError`."""

    kernel: str | None = None
    list_slow: bool = False
    batch: str | None = None
    evaluate: bool = False
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
    gpu: str | None = None
    model: str | None = None
    temperature: float | None = None
    rag_k: int | None = None
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
        self._check_later_parts()

    def _check_later_parts(self) -> None:
        if self.model not in (None, RULES):
            raise OptionError(
                f"--model {self.model}: no language model can be used in this version; leave it out, and the "
                "built-in rules propose"
            )
        for option, value in {"--temperature": self.temperature, "--rag-k": self.rag_k}.items():
            if value is not None:
                raise OptionError(f"{option} is for language models, which this version has none of; leave it out")
        if self.gpu is not None:
            raise OptionError(
                f"--gpu {self.gpu}: remote GPUs cannot be used in this version; --device cuda takes one of this machine"
            )
