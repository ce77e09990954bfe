"""The values to try of constexprs and launch options."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

from ...core import Value
from ...core.parameter_roles import ParameterRoles
from ...core.space_inference import suggest
from .autotuning import LEAST_OF_PRODUCTS
from .signatures import has_range

OWN = 0
"""The value of a parameter with which the user's code chooses."""
OPTIONS: Mapping[str, int] = {"num_warps": 4, "num_stages": 3, "num_ctas": 1, "maxnreg": 0}
"""The launch options, each with Triton's default."""
_OPTION_VALUES: Mapping[str, Sequence[int]] = {"num_ctas": (1, 2), "maxnreg": (64, 96, 128, 168, 255)}
_TYPICAL = {"stages": 3, "warps": 4, "group": 8}
_TILE = 256
"""The size around which values are suggested if the user's code computes it."""
_LETTER = re.compile(r"^B(_?[A-Z0-9])?$")
"""Names of tiles that are one letter of an axis, such as BT, or none."""
_LARGEST_GROUP = 16


def values_of(name: str, start: int, product: bool) -> tuple[Value, ...]:
    """Return the values of a parameter to try: around its start, or around the usual value."""
    if name in _OPTION_VALUES:
        return tuple(sorted({start, *_OPTION_VALUES[name]}))
    upper = _tile_name(name)
    roles = ParameterRoles.of((upper,))
    if roles.group and start > _LARGEST_GROUP:
        return (start,)  # a group of elements that share a scale, not of tiles
    usual = next((value for role, value in _TYPICAL.items() if getattr(roles, role)), _TILE)
    found = suggest({upper: start or usual}).get(upper, ())
    is_tile = not any(getattr(roles, role) for role in _TYPICAL)
    least = LEAST_OF_PRODUCTS if product and is_tile else 1
    return tuple(sorted({start, *(value for value in found if not isinstance(value, int) or value >= least)}))


def _tile_name(name: str) -> str:
    upper = name.upper()
    return f"BLOCK_{upper[-1]}" if _LETTER.match(upper) else upper


def is_tunable(name: str, kernel: ast.FunctionDef | None = None) -> bool:
    """Return whether a constexpr's name says that it is a tile or the like; B alone may be a batch.

    A kernel tells which: it has a range of its tile's extent.
    """
    if name.upper() == "B" and (kernel is None or not has_range(kernel, name)):
        return False
    return bool(suggest({_tile_name(name): 64}))
