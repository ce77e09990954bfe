"""Which parameter plays which role in a kernel, as its name says.

Names are read as the field uses them: BLOCK_M or BLOCK_SIZE_M or BM is the height of a tile of the result. Of a
convolution these are positions, channels out and channels in: BLOCK_P, BLOCK_CO and BLOCK_CI. A file of several
kernels numbers the parameters of each: BLOCK_M_2 goes with NUM_WARPS_2.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

WARP = 32
"""Threads of a warp."""
_PATTERNS = {
    "m": r"B(LOCK)?_?(SIZE)?_?M|TILE_?M|BLOCK_P",
    "n": r"B(LOCK)?_?(SIZE)?_?N|TILE_?N|BLOCK_CO",
    "k": r"B(LOCK)?_?(SIZE)?_?K|TILE_?K|BLOCK_CI",
    "warps": r"(CONV_)?(NUM_?)?WARPS",
    "threads": r"(CONV_)?(NUM_?)?THREADS",
    "stages": r"(CONV_)?(NUM_?)?STAGES",
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
        """Read the names; of several that fit one role, the first.

        Numbered ones count where a single number has a tile, and no names without one do: which of two products is
        the problem's largest, names do not show.
        """
        plain: dict[str, str] = {}
        numbered: dict[str, dict[str, str]] = {}
        for name in names:
            stem, _, number = name.upper().rpartition("_")
            if not stem or not number.isdecimal():
                stem, number = name.upper(), ""
            found = numbered.setdefault(number, {}) if number else plain
            for role, pattern in _PATTERNS.items():
                if role not in found and re.fullmatch(pattern, stem):
                    found[role] = name
        tiled = [item for item in numbered.values() if cls(**item).tiled]
        return cls(**plain) if cls(**plain).tiled or len(tiled) != 1 else cls(**{**plain, **tiled[0]})

    @property
    def tiled(self) -> bool:
        """Whether the tile of a matrix product is known."""
        return bool(self.m and self.n and self.k)

    @property
    def thread_count(self) -> str | None:
        """Threads of a block, as an expression."""
        return f"{self.warps} * {WARP}" if self.warps else self.threads
