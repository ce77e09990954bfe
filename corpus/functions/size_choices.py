"""Values chosen by size, for places of a launcher where workloads have different best values."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ...core import Value
from ...core.syntax_tree import expression_tree
from .constant_places import PlaceKey
from .launch_values import OWN

Sizes = Mapping[str, int]
"""The value of each expression of sizes at a place, at a workload."""
_MOST_PIECES = 4


@dataclass(frozen=True)
class SizeChoice:
    """A value for each range of a size."""

    size: str
    """An expression that is in scope at its place, such as `n` or `x.shape[0]`."""
    pieces: tuple[tuple[Value, int], ...]
    """Values, each with the largest size that has it."""
    last: Value
    """The value beyond."""

    @property
    def values(self) -> set[Value]:
        """All values."""
        return {*(value for value, _ in self.pieces), self.last}

    def text(self, start: Value, own: str) -> str:
        """Return the expression. `own` replaces values of the start."""
        texts = [f"{self._one(value, start, own)} if {self.size} <= {bound}" for value, bound in self.pieces]
        return " else ".join([*texts, self._one(self.last, start, own)])

    def _one(self, value: Value, start: Value, own: str) -> str:
        return _closed(own) if value == start else repr(value)

    def entry(self, name: str) -> str:
        """Return the entries of a dict with the chosen value under a name, and none where the code's own is there."""
        values = [*(value for value, _ in self.pieces), self.last]
        if OWN not in self.values:
            return f'"{name}": {self.text(OWN, "")}'
        dicts = [f'{{"{name}": {value!r}}}' if value != OWN else "{}" for value in values]
        bounds = [f" if {self.size} <= {bound} else " for _, bound in self.pieces]
        return f"**({''.join(text for pair in zip(dicts, [*bounds, ''], strict=True) for text in pair)})"


PlaceValue = Value | SizeChoice


def _closed(text: str) -> str:
    """Return an expression that can stand within another."""
    tree = expression_tree(f"({text})")
    return f"({text})" if isinstance(tree, ast.IfExp | ast.Lambda | ast.NamedExpr) else text


def chosen(
    values: Mapping[str, Value], scopes: Mapping[str, Sizes], workloads: Mapping[str, Sizes]
) -> PlaceValue | None:
    """Return the choice that gives each workload its value; None if no size in scope distinguishes them.

    `scopes` has the sizes in scope at each workload, `workloads` the sizes of its inputs: an expression that has these
    is preferred.
    """
    if len(set(values.values())) == 1:
        return next(iter(values.values()))
    common = [name for name in next(iter(scopes.values())) if all(name in sizes for sizes in scopes.values())]
    found: list[tuple[tuple[int, bool, int], SizeChoice]] = []
    for place, name in enumerate(common):
        sizes = {workload: scopes[workload][name] for workload in values}
        choice = _by(name, values, sizes)
        if choice is not None:
            found.append(((len(choice.pieces), not _is_of_inputs(sizes, workloads), place), choice))
    return min(found, key=lambda item: item[0])[1] if found else None


def _by(name: str, values: Mapping[str, Value], sizes: Sizes) -> SizeChoice | None:
    by_size: dict[int, Value] = {}
    for workload, value in values.items():
        if by_size.setdefault(sizes[workload], value) != value:
            return None
    pieces: list[tuple[Value, int]] = []
    ordered = sorted(by_size.items())
    for (size, value), (above, other) in pairwise(ordered):
        if value != other:
            pieces.append((value, between(size, above)))
    return SizeChoice(name, tuple(pieces), ordered[-1][1]) if len(pieces) < _MOST_PIECES else None


def between(below: int, above: int) -> int:
    """Return the largest size that counts as the smaller of two: half way, as a power of two if there is any."""
    if below <= 0:
        return below
    half = 2 ** round(math.log2(below * above) / 2)
    return half if below <= half < above else below


def _is_of_inputs(sizes: Sizes, workloads: Mapping[str, Sizes]) -> bool:
    names = {name for given in workloads.values() for name in given}
    return any(all(workloads[item].get(name) == size for item, size in sizes.items()) for name in names)


def tells_apart(first: Sizes, second: Sizes) -> bool:
    """Return whether a size in scope at both workloads differs."""
    return any(first[name] != second[name] for name in first if name in second)


def values_at_places(
    keys: Sequence[PlaceKey],
    values: Mapping[str, Mapping[str, Value]],
    scopes: Mapping[PlaceKey, Mapping[str, Sizes | None]],
    workloads: Mapping[str, Sizes],
    starts: Mapping[str, Value],
) -> tuple[dict[PlaceKey, PlaceValue], list[str]]:
    """Return the replacement of each place of constants, and the constants whose values no size in scope distinguishes.

    `values` has for each constant its value at each workload, `scopes` for each place the sizes there, None at a
    workload that does not reach it. A place that no workload reaches keeps the value of the start. A constant that some
    workload does not reach, and whose values are equal, is left out: all of its places take the value.
    """
    found: dict[PlaceKey, PlaceValue] = {}
    lacking: list[str] = []
    for constant, wanted in values.items():
        own = [key for key in keys if key.constant == constant]
        at = {key: {name: sizes for name, sizes in scopes.get(key, {}).items() if sizes is not None} for key in own}
        if not all(any(name in at[key] for key in own) for name in wanted):
            lacking += [constant] if len(set(wanted.values())) > 1 else []
            continue
        chosen_here: dict[PlaceKey, PlaceValue] = {}
        for key in own:
            there = {name: wanted[name] for name in at[key]}
            choice = chosen(there, at[key], workloads) if there else starts[constant]
            if choice is not None:
                chosen_here[key] = choice
        if len(chosen_here) < len(own):
            lacking.append(constant)
        else:
            found |= chosen_here
    return found, lacking
