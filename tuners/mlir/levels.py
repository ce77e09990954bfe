"""The parts of an operation's schedules: parameters, constraints, and the text with slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...core.mlir_operation import Loop


@dataclass(frozen=True)
class Levels:
    """A kind of schedule for an operation from a processor's module, before a user's ranges apply."""

    values: Mapping[str, tuple[int, ...]]
    constraints: tuple[str, ...]
    """Constraints that every valid config satisfies."""
    preferences: tuple[str, ...]
    """Additional constraints of a derived space, which exclude slow schedules. They do not apply to a user's ranges."""
    likely: tuple[Mapping[str, int], ...]
    """Configs to try first. Each value stands for the closest one in the space."""
    info: str
    """`compilation_info` in MLIR, with marks that name the parameters."""
    extents: Mapping[str, int] = field(default_factory=dict)
    """By parameter: the loop's size, which a tile must not pass."""


def divisors(size: int, least: int = 1, most: int | None = None) -> tuple[int, ...]:
    """Return the divisors of a size from `least` to `most`; the closest one below if none is in the range."""
    limit = min(size, most or size)
    every = [number for number in range(1, limit + 1) if size % number == 0]
    return tuple(number for number in every if number >= least) or (every[-1],)


def at(loops: Sequence[Loop], tiles: Mapping[str, object]) -> str:
    """Return a list of tile sizes in the order of the loops, 0 for missing ones: `[64, @{tile_n}, 0]`."""
    return f"[{', '.join(str(tiles.get(loop.name, 0)) for loop in loops)}]"


def mark(expression: str) -> str:
    """Return an expression as a mark of a slot's text."""
    return f"@{{{expression}}}"
