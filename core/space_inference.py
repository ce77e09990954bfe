"""Infers a kernel's parameters, their values, and the sizes that constraints may name.

`tune` and the searches of `optimize` use it, so both have the same parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from .expressions import Expression
from .kernel import Kernel
from .parameter_roles import ParameterRoles
from .problem import Problem
from .profile import Profile
from .space import SearchSpace, Value

_SIZE = re.compile(r"BLOCK|TILE|UNROLL|THREADS|SPLIT|VEC|CHUNK|ROWS|COLS|GROUP|^B[MNK]$")
"""Names of constants that are tunable sizes."""
LARGEST = 8192
PRODUCT = ("M", "N", "K")
"""Extents of the largest matrix product or convolution, known if the problem was profiled."""
_KNOWN: Mapping[str, Sequence[int]] = {"warps": (1, 2, 4, 8, 16), "stages": (1, 2, 3, 4, 5), "group": (1, 2, 4, 8, 16)}


def parameter_values(kernel: Kernel) -> Mapping[str, Sequence[Value]]:
    """Return the kernel's declared values, or values suggested by the names of its constants."""
    return kernel.declared_values or suggest(kernel.config)


def suggest(constants: Mapping[str, Value]) -> dict[str, Sequence[Value]]:
    """Suggest values around the current ones, for constants with a recognised name.

    Power-of-two sizes range from an eighth to eight times the current value. A constant such as HIDDEN = 1024 is a size
    of the problem, so nothing is suggested for it.
    """
    found: dict[str, Sequence[Value]] = {}
    for name, value in constants.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            continue
        roles = ParameterRoles.of((name,))
        known = next((values for role, values in _KNOWN.items() if getattr(roles, role)), None)
        if known is not None:
            found[name] = sorted({*known, value})
        elif _SIZE.search(name) and value & (value - 1) == 0:
            around = [value << step if step >= 0 else value >> -step for step in range(-3, 4)]
            found[name] = [size for size in around if 1 <= size <= LARGEST or size == value]
    return found


def named_sizes(problem: Problem, profile: Profile | None = None) -> dict[str, int]:
    """Return names for constraints: the problem's integers, and M, N and K of its largest matrix product.

    A constant of the problem hides an extent of the same name. Without a profile there are no extents.
    """
    product = profile.product if profile else None
    extents = {"M": product.m, "N": product.n, "K": product.k} if product else {}
    return {**extents, **problem.integers}


def without_extents(constraints: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return the constraints that need no profile: those without M, N or K beyond the `known` names."""
    extents = set(PRODUCT) - set(known)
    return [text for text in constraints if not Expression(text).names & extents]


def declared_space(
    kernel: Kernel, problem: Problem | None = None, profile: Profile | None = None
) -> SearchSpace | None:
    """Return the space that the kernel declares; None if it declares no parameters.

    Without a profile, constraints that need one are omitted. Raises `SpaceError` for an invalid declaration.
    """
    values, constraints = kernel.declared_values, kernel.declared_constraints
    if not values:
        return None
    sizes = named_sizes(problem, profile) if problem else {}
    if profile is None:
        constraints = without_extents(constraints, {*values, *sizes})
    return kernel.space(values, constraints, sizes)
