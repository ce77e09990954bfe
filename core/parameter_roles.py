"""Roles of parameters in a kernel, inferred from their names.

Names follow common usage: BLOCK_M, BLOCK_SIZE_M or BM is the height of a tile of the result. Convolutions have
positions, output channels and input channels: BLOCK_P, BLOCK_CO and BLOCK_CI. A file of several kernels numbers their
parameters: BLOCK_M_2 belongs to NUM_WARPS_2.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass


def constant_prefix(kernel: str) -> str:
    """Return what stands before the names of a kernel's constants where several kernels have the same parameters."""
    return kernel.strip("_").upper()


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
class ParameterRoles:
    """The parameter of each role; None if there is none."""

    m: str | None = None
    n: str | None = None
    k: str | None = None
    warps: str | None = None
    threads: str | None = None
    stages: str | None = None
    group: str | None = None
    split: str | None = None

    @classmethod
    def of(cls, names: tuple[str, ...]) -> ParameterRoles:
        """Infer the roles from names. If several names fit a role, the first is taken.

        Numbered names are used if exactly one number has a tile, and no unnumbered name has one: names do not tell
        which of two products is the largest.
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

    @classmethod
    def among(cls, names: tuple[str, ...], functions: Collection[str]) -> ParameterRoles:
        """Infer the roles from names before which that of a kernel may stand: SCALE_BLOCK_M of `_scale`.

        Such names are used if exactly one kernel among `functions` has a tile, and no plain name is one.
        """
        plain = cls.of(names)
        if plain.m or plain.n or plain.k:
            return plain
        owned: dict[str, dict[str, str]] = {}
        for name in names:
            heads = [head for head in map(constant_prefix, functions) if head and name.startswith(f"{head}_")]
            if heads:
                head = max(heads, key=len)
                owned.setdefault(head, {})[name.removeprefix(f"{head}_")] = name
        found = [given for own in owned.values() if (given := cls.of(tuple(own))._named(own)).m and given.n]
        return found[0]._or(plain) if len(found) == 1 else plain

    def own(self, functions: Collection[str]) -> ParameterRoles:
        """Return the roles with the names that the kernel's own parameters have."""
        heads = sorted(map(constant_prefix, functions), key=len, reverse=True)
        names = [name for name in vars(self).values() if name]
        return self._named(
            {
                name: next(
                    (name.removeprefix(f"{head}_") for head in heads if head and name.startswith(f"{head}_")), name
                )
                for name in names
            }
        )

    def _named(self, names: Mapping[str, str]) -> ParameterRoles:
        return ParameterRoles(**{role: names[name] for role, name in vars(self).items() if name})

    def _or(self, other: ParameterRoles) -> ParameterRoles:
        return ParameterRoles(**{role: name or getattr(other, role) for role, name in vars(self).items()})

    @property
    def tiled(self) -> bool:
        """Whether the parameters of a matrix product's tile are known."""
        return bool(self.m and self.n and self.k)

    def thread_count(self, warp_size: int) -> str | None:
        """Number of threads of a block, as an expression."""
        return f"{self.warps} * {warp_size}" if self.warps else self.threads
