"""The search space of a kernel: options take precedence over declared values and suggestions by constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..core import Kernel, PythonKernel, SearchSpace, SpaceError, Value
from ..core.space_inference import parameter_values, without_extents


@dataclass(frozen=True)
class FoundSpace:
    """A space, and its origin."""

    space: SearchSpace
    origin: str
    """'declared', 'given' or 'discovered'."""


def _computed(kernel: Kernel) -> str:
    """Return which constants are none that can be set, with what they are; empty where there are none."""
    found = kernel.computed if isinstance(kernel, PythonKernel) else {}
    return f" (computed, so not set: {', '.join(f'{name} = {text}' for name, text in found.items())})" if found else ""


def space_of(
    kernel: Kernel,
    given: Mapping[str, Sequence[Value]],
    constraints: Sequence[str],
    sizes: Mapping[str, int] | None = None,
    profiled: bool = True,
) -> FoundSpace:
    """Return the space to search: the user's parameters, over the declared ones, else suggestions from the constants.

    A given parameter replaces the declared one of that name and leaves the others unchanged; the kernel's declared
    constraints hold for all values. Constraints may name `sizes` of the problem; before it is `profiled`, those that
    name extents of its matrix product are left out. Raises `SpaceError` for a parameter that the kernel does not have,
    and for a kernel without any.
    """
    constants = kernel.config
    if unknown := [name for name in given if name not in constants]:
        raise SpaceError(
            f"{kernel.name} has no parameter {', '.join(unknown)}; its constants are {', '.join(constants) or 'none'}"
            f"{_computed(kernel)}"
        )
    for name, choices in given.items():
        others = [repr(choice) for choice in choices if isinstance(choice, float | str)]
        if isinstance(constants[name], int) and others:
            raise SpaceError(
                f"{name} is a whole number in {kernel.name}, and {', '.join(others)} is none; give whole numbers"
            )
    declared = kernel.declared_values
    values = {**declared, **given} or parameter_values(kernel)
    if not values:
        raise SpaceError(
            f"{kernel.name} declares no SEARCH_SPACE and has no constant that looks like a tile, warps or stages; "
            "name parameters with `params` BLOCK_M=32,64,128, or make them constants with upper-case names"
            f"{_computed(kernel)}"
        )
    origin = "given" if given else "declared" if declared else "discovered"
    every = [*kernel.declared_constraints, *constraints]
    if not profiled:
        every = without_extents(every, {*values, *(sizes or {})})
    return FoundSpace(kernel.space(values, every, sizes), origin)
