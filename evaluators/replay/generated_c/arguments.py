"""What a function of generated C is called with."""

from __future__ import annotations

from dataclasses import dataclass

from .types import Interval


@dataclass(frozen=True)
class Given:
    """The arguments of some launches, by parameter."""

    parameters: tuple[int | Interval | None, ...]
    """Of a pointer, the bytes behind it; of an integer, what it is in any of the launches; of a float, None."""
