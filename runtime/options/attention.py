"""The options of `tune attention`, which `tune_attention` takes as an object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ...core import OptionError
from ...core.extras import require_extra
from ...tuners import catalogue
from .groups import OUTPUT, SEARCH, WHERE, DeviceOptions, ResultOptions
from .option import option

SHAPE = "Problem"
OWN_TUNERS = ("schedule", "random_moves")
"""Tuners that move schedules directly. The others move random keys."""


def _tuners() -> Mapping[str, str]:
    return {"schedule": "hill climbing over schedules", "random_moves": "", **catalogue.choices()}


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
        None, "Heads of keys and values, shared by groups of query heads; by default as many.", SHAPE, at_least=1
    )
    seq_len_q: int = option(512, "Queries of a head.", SHAPE, at_least=1)
    seq_len_k: int | None = option(None, "Keys of a head; by default as many as queries.", SHAPE, at_least=1)
    head_dim: int = option(64, "Elements of a query and a key.", SHAPE, at_least=1)
    head_dim_kv: int | None = option(None, "Elements of a value; by default as many as of a key.", SHAPE, at_least=1)
    causal: bool = option(False, "Each query attends to keys up to its own position only.", SHAPE)
    dtype: Half = option(Half.FLOAT16, "Element type: float16 or bfloat16.", SHAPE)
    tuner: str = option(
        "schedule", "{choices}. The tuners of 'tune kernel' search over random keys.", SEARCH, choices=_tuners
    )
    trials: int = option(50, "At most this many schedules.", SEARCH, at_least=1)
    seconds: float | None = option(None, "Start no trials after this time.", SEARCH, above=0)
    patience: int | None = option(None, "Stop after this many trials without a better one.", SEARCH, at_least=1)
    seed: int = option(0, "Random seed of the tuner.", SEARCH)
    schedule: Path | None = option(
        None, "A schedule to start from: schedule_0003.txt or .json of a search.", SEARCH, metavar="FILE"
    )
    interval: int | None = option(None, "Start with this interval, in cycles of the model.", SEARCH, metavar="CYCLES")
    rates: Path | None = option(
        None, "Rates of the model that a measured search fitted: its rates.json.", SEARCH, metavar="FILE"
    )
    simulate: bool = option(False, "Simulate instead of measuring; needs no GPU, and every result says so.", WHERE)
    plot: bool = option(False, "Draw the schedules before and after, and the convergence, as PNG.", OUTPUT)

    def check(self) -> None:
        """Raise `OptionError` for options that contradict each other."""
        super().check()
        catalogue.check(self.tuner, OWN_TUNERS)
        if self.schedule is not None and self.interval is not None:
            raise OptionError("`schedule` has an interval of its own", "leave `interval` out")
        if self.plot:
            require_extra("`plot`", "matplotlib", "plots")
