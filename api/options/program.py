"""The options of `compile_program`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from .groups import BUDGET, MODEL, OUTPUT, WHERE, Backend, BudgetOptions, DeviceOptions, ModelOptions, ResultOptions
from .option import described, option
from .trust import QuickOptions


class Size(StrEnum):
    """How many new instructions are tried."""

    LIGHT = "light"
    MEDIUM = "medium"
    HEAVY = "heavy"


@dataclass(frozen=True, kw_only=True)
class CompileOptions(ResultOptions, BudgetOptions, ModelOptions, QuickOptions, DeviceOptions):
    """Improve the instructions that language models follow."""

    recorded: tuple[Path, ...] = field(
        kw_only=False, metadata=described("Results folders of earlier runs, or their journals.", metavar="RESULTS...")
    )
    model: str | None = option(
        None,
        "The model that follows the instructions: openai/o3 or any provider/name, replay:FILE, files:DIR. By default "
        "openai/o3 if OPENAI_API_KEY is set.",
        MODEL,
        trusted=True,
    )
    reflection_model: str | None = option(
        None, "The model that improves them; by default the same.", MODEL, trusted=True
    )
    budget: Size = option(
        Size.LIGHT, "How many new instructions to try: light 6, medium 12, heavy 18.", BUDGET, trusted=True
    )
    max_evaluations: int | None = option(
        None,
        "Instead: about this many runs of the program, each in one situation.",
        BUDGET,
        above=0,
        advice="give more, or leave it out",
        trusted=True,
    )
    time_limit: float | None = option(
        None,
        "Stop requests to models after this many seconds.",
        BUDGET,
        above=0,
        advice="give more, or leave it out",
        trusted=True,
    )
    seed: int = option(0, "Of the choice of validation situations, and of GEPA's choices.", BUDGET)
    backend: Backend | None = option(None, "Backend of the instructions; by default the most frequent one.", WHERE)
    problem: tuple[Path, ...] = option((), "A problem file that is not shipped; may be repeated.", WHERE, trusted=True)
    dataset: Path | None = option(None, "A KernelBench checkout to take the problems from.", WHERE, trusted=True)
    output: Path = option(Path("program.json"), "File for the program.", OUTPUT)

    def check(self) -> None:
        """Raise `OptionError` for an output that cannot be."""
        from ...core.errors import OptionError

        super().check()
        if self.output.is_dir():
            raise OptionError(f"`output` {self.output} is a folder", "name a file in it, such as program.json")
