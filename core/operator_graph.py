"""The graph of operators of a reference, as data: torch.export's, decomposed. It crosses between processes as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from math import prod
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

INPUT, WEIGHT = "input", "weight"
"""Operators of values that the caller gives, and that the module holds."""
REFERENCE = "value"
"""The key of a dict of one entry that stands for another value among an operation's arguments."""


class GraphValue(BaseModel):
    """One value of a graph, with the operation that makes it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    operator: str
    """`aten.add.Tensor`, `getitem`; or `input`, whose argument is the position, or `weight`, whose argument is the
    name in the module."""
    arguments: tuple[Any, ...] = ()
    """Numbers, strings, lists, None, or `{"value": name}` for another value."""
    keywords: dict[str, Any] = {}
    shapes: tuple[tuple[int, ...], ...] = ()
    """The shape of each tensor that the operation returns; most return one."""
    dtypes: tuple[str, ...] = ()
    """Torch's names without `torch.`: `bfloat16`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the only tensor, or of the first one."""
        return self.shapes[0]

    @property
    def dtype(self) -> str:
        """The dtype of the only tensor, or of the first one."""
        return self.dtypes[0]

    @property
    def size(self) -> int:
        """The number of elements of the first tensor."""
        return prod(self.shape)

    @cached_property
    def operands(self) -> tuple[str, ...]:
        """Names of the values among the arguments, each once, in order."""
        return tuple(dict.fromkeys(_references([*self.arguments, *self.keywords.values()])))


class OperatorGraph(BaseModel):
    """All values of a graph, each after the values that it needs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    values: tuple[GraphValue, ...]
    outputs: tuple[str, ...]
    form: Literal["tensor", "tuple", "list"]

    @cached_property
    def by_name(self) -> dict[str, GraphValue]:
        """The values by name."""
        return {value.name: value for value in self.values}

    @cached_property
    def users(self) -> dict[str, tuple[str, ...]]:
        """By name, the values that need it."""
        found: dict[str, list[str]] = {value.name: [] for value in self.values}
        for value in self.values:
            for operand in value.operands:
                found[operand].append(value.name)
        return {name: tuple(names) for name, names in found.items()}

    def ancestors(self, names: Iterable[str]) -> frozenset[str]:
        """Return these values, and all that they follow from."""
        found, left = set[str](), list(names)
        while left:
            name = left.pop()
            if name not in found:
                found.add(name)
                left += self.by_name[name].operands
        return frozenset(found)


def referenced(argument: Any) -> str | None:
    """Return the name of the value that an argument stands for; None for any other argument."""
    return argument[REFERENCE] if isinstance(argument, dict) and argument.keys() == {REFERENCE} else None


def _references(argument: Any) -> Iterator[str]:
    name = referenced(argument)
    if name is not None:
        yield name
    elif isinstance(argument, list | tuple):
        for item in argument:
            yield from _references(item)
