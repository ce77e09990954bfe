"""Arguments of a function of generated C."""

from __future__ import annotations

from dataclasses import dataclass

from .types import Interval


@dataclass(frozen=True)
class Given:
    """The arguments of some launches, by parameter."""

    parameters: tuple[int | Interval | None, ...]
    """For a pointer the size in bytes of its memory, for an integer its range over all launches, for a float None."""
