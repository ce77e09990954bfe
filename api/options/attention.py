"""The options of `tune_attention`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from .groups import OUTPUT, SEARCH, WHERE, DeviceOptions, ResultOptions
from .option import option

SHAPE = "Problem"
OWN_TUNERS = ("schedule", "random_moves")
"""Those that move schedules themselves; the others move random keys."""


class Half(StrEnum):
    """Element types that the kernel multiplies."""

    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"


@dataclass(frozen=True, kw_only=True)
class AttentionConfig(ResultOptions, DeviceOptions):
    """Search schedules of the attention kernel."""

    batch_size: int = option(1, "Batches.", SHAPE, at_least=1)
    num_heads: int = option(32, "Heads of queries.", SHAPE, at_least=1)
    num_kv_heads: int | None = option(
        None, "Heads of keys and values, which groups of query heads share; by default as many.", SHAPE, at_least=1
    )
    seq_len_q: int = option(512, "Queries of a head.", SHAPE, at_least=1)
    seq_len_k: int | None = option(None, "Keys of a head; by default as many as queries.", SHAPE, at_least=1)
    head_dim: int = option(64, "Elements of a query and a key.", SHAPE, at_least=1)
    head_dim_kv: int | None = option(None, "Elements of a value; by default as many as of a key.", SHAPE, at_least=1)
    causal: bool = option(False, "Each query attends to keys up to its own position only.", SHAPE)
    dtype: Half = option(Half.FLOAT16, "Element type: float16 or bfloat16.", SHAPE)
    tuner: str = option(
        "schedule",
        "schedule (hill climbing over schedules), random_moves, or a tuner of 'tune kernel' over random keys: "
        "portfolio, xgboost, hill_climb, annealing, random, grid.",
        SEARCH,
    )
    trials: int = option(50, "At most this many schedules.", SEARCH, at_least=1)
    seconds: float | None = option(None, "Start no trial after this time.", SEARCH, above=0)
    patience: int | None = option(None, "Stop after this many trials without a better one.", SEARCH, at_least=1)
    seed: int = option(0, "Of the tuner's choices.", SEARCH)
    schedule: Path | None = option(
        None, "A schedule to start from: schedule_0003.txt or .json of a search.", SEARCH, metavar="FILE"
    )
    interval: int | None = option(
        None, "Keep to this interval at the start, in cycles of the model.", SEARCH, metavar="CYCLES"
    )
    rates: Path | None = option(
        None, "Rates of the model that a measured search fitted: its rates.json.", SEARCH, metavar="FILE"
    )
    simulate: bool = option(False, "Simulate instead of measuring; needs no GPU, and every result says so.", WHERE)
    plot: bool = option(False, "Draw the schedules before and after, and the convergence, as PNG.", OUTPUT)

    def check(self) -> None:
        """Raise `OptionError` for what does not go together."""
        from ...core.errors import OptionError
        from ...core.extras import require_extra
        from ...tuners import catalogue

        super().check()
        if self.tuner not in OWN_TUNERS:
            try:
                catalogue.check(self.tuner)
            except OptionError as error:
                raise OptionError(f"{error.message}, {', '.join(OWN_TUNERS)}") from None
        if self.schedule is not None and self.interval is not None:
            raise OptionError("`schedule` has an interval of its own", "leave `interval` out")
        if self.plot:
            require_extra("`plot`", "matplotlib", "plots")
