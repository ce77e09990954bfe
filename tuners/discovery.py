"""A kernel's parameters, and the values worth trying."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..core import Kernel, SearchSpace, SpaceError, Value
from .hardware import Roles

_SIZE = re.compile(r"BLOCK|TILE|UNROLL|THREADS|SPLIT|VEC|CHUNK|ROWS|COLS|GROUP|^B[MNK]$")
"""Names of constants that are sizes which a kernel may choose freely."""
LARGEST = 8192
_KNOWN: Mapping[str, Sequence[int]] = {"warps": (1, 2, 4, 8, 16), "stages": (1, 2, 3, 4, 5), "group": (1, 2, 4, 8, 16)}


@dataclass(frozen=True)
class FoundSpace:
    """A space, and its origin."""

    space: SearchSpace
    origin: str
    """'declared', 'given' or 'discovered'."""


def space_of(kernel: Kernel, given: Mapping[str, Sequence[Value]], constraints: Sequence[str]) -> FoundSpace:
    """Return the space to search: the user's parameters, over the declared ones, else suggestions from the constants.

    A given parameter replaces the declared one of that name and leaves the others unchanged; the kernel's declared
    constraints hold for all values. Raises `SpaceError` for a parameter that the kernel does not have, and for a kernel
    without any.
    """
    constants = kernel.config
    if unknown := [name for name in given if name not in constants]:
        raise SpaceError(
            f"{kernel.name} has no parameter {', '.join(unknown)}; its constants are {', '.join(constants) or 'none'}"
        )
    for name, choices in given.items():
        others = [repr(choice) for choice in choices if isinstance(choice, float | str)]
        if isinstance(constants[name], int) and others:
            raise SpaceError(
                f"{name} is a whole number in {kernel.name}, and {', '.join(others)} is none; give whole numbers"
            )
    declared = kernel.declared_values
    values = {**declared, **given} or suggest(constants)
    if not values:
        raise SpaceError(
            f"{kernel.name} declares no SEARCH_SPACE and has no constant that looks like a tile, warps or stages; "
            "name parameters with `params` BLOCK_M=32,64,128, or make them constants with upper-case names"
        )
    origin = "given" if given else "declared" if declared else "discovered"
    return FoundSpace(kernel.space(values, [*kernel.declared_constraints, *constraints]), origin)


def suggest(constants: Mapping[str, Value]) -> dict[str, Sequence[Value]]:
    """Suggest values around the present ones, for constants with a known kind of name.

    Sizes that are powers of two go from an eighth to eight times the present value.
    """
    found: dict[str, Sequence[Value]] = {}
    for name, value in constants.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            continue
        roles = Roles.of((name,))
        known = next((values for role, values in _KNOWN.items() if getattr(roles, role)), None)
        if known is not None:
            found[name] = sorted({*known, value})
        elif _SIZE.search(name) and value & (value - 1) == 0:
            around = [value << step if step >= 0 else value >> -step for step in range(-3, 4)]
            found[name] = [size for size in around if 1 <= size <= LARGEST]
    return found
