"""The page about a model: its step as a bar of regions, with plain torch.compile and with the store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core import OptionError
from ..core.files import read_text
from ..core.text import data_of

NAMED = 0.08
"""Smallest share of the bar at which a segment has room for its name."""


@dataclass(frozen=True)
class BarSegment:
    """One coloured part of a step's bar."""

    name: str
    ms: float
    width: float
    """Percent of the longer step."""
    kind: str
    """Class in the page's style: 'served', 'region', 'other' or 'host'."""
    labelled: bool


def read_model_record(path: Path) -> dict[str, Any] | None:
    """Return a record of `kernelwright model`; None for another file. Raises `OptionError` for a damaged record."""
    if path.suffix != ".json" or not path.is_file():
        return None
    with data_of(path, OptionError, "name a record that `kernelwright model` wrote"):
        found = json.loads(read_text(path))
        for name in ("script", "gain", "plain_ms", "store_ms", "regions", "host_ms", "step_ms", "breaks"):
            found[name]
        model_values(found)
    return dict(found)


def model_values(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the page's template."""
    longest = max((step for step in record["step_ms"] if step), default=0.0)
    names = ("with torch.compile", "with the store")
    bars = [
        (name, step, _segments(record, place, longest))
        for place, (name, step) in enumerate(zip(names, record["step_ms"], strict=True))
        if step
    ]
    return {"record": record, "bars": bars, "name": Path(record["script"]).name}


def _segments(record: Mapping[str, Any], place: int, longest: float) -> list[BarSegment]:
    """Return a step's parts: regions by their earlier times, other kernels, and the time without a kernel."""
    figure = ("before_ms", "after_ms")[place]
    step, host = record["step_ms"][place], record["host_ms"][place] or 0.0
    parts = [
        (f"{row['what']} ({row['region']})", row[figure] or 0.0, "served" if row["entry"] and place else "region")
        for row in record["regions"]
    ]
    others = max(0.0, step - host - sum(ms for _, ms, _ in parts))
    parts += [("other kernels", others, "other"), ("no kernel runs", host, "host")]
    return [
        BarSegment(name, ms, round(100 * ms / longest, 3), kind, ms >= NAMED * longest)
        for name, ms, kind in parts
        if ms > 0
    ]
