"""Which parameter plays which role in a kernel, as its name says.

Names are read as the field uses them: BLOCK_M or BLOCK_SIZE_M or BM is the height of a tile of the result.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

WARP = 32
"""Threads of a warp."""
_PATTERNS = {
    "m": r"B(LOCK)?_?(SIZE)?_?M|TILE_?M",
    "n": r"B(LOCK)?_?(SIZE)?_?N|TILE_?N",
    "k": r"B(LOCK)?_?(SIZE)?_?K|TILE_?K",
    "warps": r"(NUM_?)?WARPS",
    "threads": r"(NUM_?)?THREADS",
    "stages": r"(NUM_?)?STAGES",
    "group": r"GROUP_?(SIZE)?_?M?",
    "split": r"(NUM_?)?K?_?SPLIT_?K?",
}


@dataclass(frozen=True)
class Roles:
    """The parameter of each role; None where there is none."""

    m: str | None = None
    n: str | None = None
    k: str | None = None
    warps: str | None = None
    threads: str | None = None
    stages: str | None = None
    group: str | None = None
    split: str | None = None

    @classmethod
    def of(cls, names: tuple[str, ...]) -> Roles:
        """Read the names; of several that fit one role, the first."""
        found: dict[str, str] = {}
        for name in names:
            for role, pattern in _PATTERNS.items():
                if role not in found and re.fullmatch(pattern, name.upper()):
                    found[role] = name
        return cls(**found)

    @property
    def tiled(self) -> bool:
        """Whether the tile of a matrix product is known."""
        return bool(self.m and self.n and self.k)

    @property
    def thread_count(self) -> str | None:
        """Threads of a block, as an expression."""
        return f"{self.warps} * {WARP}" if self.warps else self.threads
