"""The search space of a kernel: options take precedence over declared values and suggestions by constants."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..core import Config, Kernel, Profile, PythonKernel, SearchSpace, SpaceError, Value
from ..core.space_inference import parameter_values, without_extents
from ..core.syntax_tree import literal
from .hardware import prune

_PARAM = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*(.+)")


@dataclass(frozen=True)
class FoundSpace:
    """A space, its origin, and the configs that the device rules out."""

    space: SearchSpace
    origin: str
    """'declared', 'given' or 'discovered'."""
    rules: tuple[str, ...] = ()
    """Constraints of the device in the space."""
    ruled_out: int | None = 0
    """Number of configs that violate them; None if they are too many to count."""

    @property
    def count(self) -> int | None:
        """Number of configs; None if they are too many to count."""
        members = self.space.encoded.members
        return None if members is None else len(members)

    def on_device(self, kernel: Kernel, profile: Profile, keep: Iterable[Config] = ()) -> FoundSpace:
        """Return it without the configs that the device cannot run; see `hardware.prune`."""
        space, rules = prune(self.space, kernel, profile, keep)
        left = replace(self, space=space, rules=tuple(rules))
        if not rules:
            return left
        before, after = self.count, left.count
        return replace(left, ruled_out=None if before is None or after is None else before - after)


def _computed(kernel: Kernel) -> str:
    """Describe the constants that cannot be set; empty without any."""
    found = kernel.computed if isinstance(kernel, PythonKernel) else {}
    return f" (computed, so not set: {', '.join(f'{name} = {text}' for name, text in found.items())})" if found else ""


def space_of(
    kernel: Kernel,
    given: Mapping[str, Sequence[Value]],
    constraints: Sequence[str],
    sizes: Mapping[str, int] | None = None,
    profiled: bool = True,
) -> FoundSpace:
    """Return the space to search: the user's parameters, then declared ones, otherwise suggestions from the constants.

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


def parse_params(given: Mapping[str, Sequence[Value]] | Sequence[str] | None) -> dict[str, list[Value]]:
    """Names and their values, from these or from texts such as 'BLOCK_M=32,64,128'; `SpaceError` for other texts."""
    if isinstance(given, Mapping):
        return {name: list(values) for name, values in given.items()}
    found: dict[str, list[Value]] = {}
    for text in [given] if isinstance(given, str) else given or ():
        match = _PARAM.fullmatch(text)
        if match is None:
            raise SpaceError(f"`params` {text!r} names no values; write it as BLOCK_M=32,64,128")
        if match[1] in found:
            raise SpaceError(f"`params` {match[1]} is given twice; give all its values at once")
        found[match[1]] = [_value(part.strip(), text) for part in match[2].split(",")]
    return found


def _value(text: str, whole: str) -> Value:
    if not text:
        raise SpaceError(f"`params` {whole!r} has an empty value; write it as BLOCK_M=32,64,128")
    try:
        value = literal(text)
    except (ValueError, SyntaxError):
        if re.search(r"[()\[\]{}]", text):
            raise SpaceError(f"`params` {whole!r}: a value is a number or a text without brackets") from None
        return text
    return value if isinstance(value, int | float | str) else text
