"""Rates of the attention model fitted to measured schedules."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path

from ...core import Config, Evaluation, OptionError, Origin
from ...core.files import read_text, write_whole
from ...core.text import data_of
from .attention import Rates

FITTED = ("tensor_flops", "special", "vector", "shared_bytes", "copy_bytes", "copy_latency")
FEWEST = 8
"""Measured schedules that a fit needs."""
MOST = 16
"""Measured schedules that a fit takes, from the fastest to the slowest: it simulates each about a hundred times."""
STEPS = (1.6, 1.25, 1.1)
"""Factors that each rate is tried with, the coarse ones first."""

Predict = Callable[[Rates, Config], float | None]
"""Return the simulated time of a config in milliseconds at these rates; None if it cannot be built."""


def fit_rates(measured: Sequence[Evaluation], predict: Predict, start: Rates) -> tuple[Rates, float]:
    """Return the rates whose simulated times are nearest to the measured ones, and the error that is left.

    The error is the root mean square of the logarithms' differences: 0.1 is 10 %. One rate is changed at a time, by
    ever smaller factors, as long as the error falls. Simulated evaluations are left out; of more than `MOST` measured
    ones some are taken. Raises `OptionError` for fewer than `FEWEST`.
    """
    timed = [(Config(e.config), e.latency_ms) for e in measured if e.latency_ms and e.origin is not Origin.SIMULATED]
    if len(timed) < FEWEST:
        raise OptionError(f"{len(timed)} measured schedules are too few to fit rates to", f"measure {FEWEST} or more")
    timed.sort(key=lambda row: row[1])
    if len(timed) > MOST:
        timed = [timed[round(i * (len(timed) - 1) / (MOST - 1))] for i in range(MOST)]

    def error(rates: Rates) -> float:
        pairs = [(predict(rates, config), ms) for config, ms in timed]
        logs = [math.log(simulated / ms) ** 2 for simulated, ms in pairs if simulated]
        return math.sqrt(statistics.fmean(logs)) if logs else math.inf

    best, left = start, error(start)
    for step in STEPS:
        improved = True
        while improved:
            improved = False
            for name in FITTED:
                for factor in (step, 1 / step):
                    tried = replace(best, **{name: getattr(best, name) * factor})
                    if (found := error(tried)) < left * (1 - 1e-6):
                        best, left, improved = tried, found, True
    return best, left


def write_rates(path: Path, rates: Rates, error: float, count: int, device: str) -> None:
    """Write the fitted rates with the data of the fit."""
    said = {"rates": asdict(rates), "error": error, "schedules": count, "device": device}
    write_whole(path, json.dumps(said, indent=1) + "\n")


def read_rates(path: Path) -> Rates:
    """Return the rates in a file that `write_rates` wrote; raises `OptionError` for any other."""
    known = {field.name for field in fields(Rates)}
    with data_of(path, OptionError, "give the rates.json of a measured search", "holds no fitted `rates`"):
        said = json.loads(read_text(path))["rates"]
        values = {name: float(said[name]) for name in known}
        if not all(math.isfinite(value) and value > 0 for value in values.values()):
            raise ValueError("each is a finite number above 0")
    count = int(values.pop("multiprocessors"))
    return Rates(**values, multiprocessors=count)
