"""A model's steps: marks in a script, which do nothing outside a measurement, and the time of a step."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LISTENERS: list[Callable[[Any], None]] = []
"""Functions called at the end of each step with the script's value: timers and profilers of this process."""


def step(value: Any = None) -> None:
    """Mark the end of a step of a model, such as after `optimizer.step()` or a generated token.

    `value`, a number or a tensor of one such as the loss, is compared between runs by `kernelwright model`. Without
    that command, and where nothing is recorded, a call does nothing.
    """
    for listener in LISTENERS:
        listener(value)


@dataclass(frozen=True)
class StepShares:
    """Times of a step's parts, in milliseconds."""

    step_ms: float
    host_ms: float
    """Time without a kernel: on a GPU none runs; on a CPU none of a compiled graph."""
    steps: int
    """How many were looked at."""
    regions: dict[str, float] = field(default_factory=dict)
    """By key; a kernel that Inductor made for several regions counts for each with its part."""

    @classmethod
    def read(cls, path: Path) -> StepShares | None:
        """Read the file of `StepProfiler`; None if no step was repeated."""
        return cls(**json.loads(path.read_text())) if path.exists() else None
