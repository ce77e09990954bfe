"""The graph of operators of a reference, as data: torch.export's, decomposed. It crosses between processes as JSON.

A size that is free within a range crosses as `{"size": [coefficients], "of": [name, low, high]}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from math import prod
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, PlainSerializer, PlainValidator

from .dynamic_size import DynamicSize, FreeSize

INPUT, WEIGHT = "input", "weight"
"""Operators of values that the caller gives, and that the module holds."""
REFERENCE = "value"
"""The key of a dict of one entry that stands for another value among an operation's arguments."""
SIZE, OF = "size", "of"


def _read(item: Any) -> Any:
    """Return an item of JSON with free sizes as such."""
    if isinstance(item, dict):
        if item.keys() == {SIZE, OF}:
            return DynamicSize.of(FreeSize(*item[OF]), tuple(item[SIZE]))
        return {name: _read(value) for name, value in item.items()}
    return type(item)(map(_read, item)) if isinstance(item, list | tuple) else item


def _plain(item: Any) -> Any:
    if isinstance(item, DynamicSize):
        return {SIZE: list(item.coefficients), OF: [item.free.name, item.free.low, item.free.high]}
    if isinstance(item, dict):
        return {name: _plain(value) for name, value in item.items()}
    return list(map(_plain, item)) if isinstance(item, list | tuple) else item


def _shapes(item: Any) -> tuple[tuple[int, ...], ...]:
    found = tuple(tuple(_read(size) for size in shape) for shape in item)
    if any(type(size) not in (int, DynamicSize) for shape in found for size in shape):
        raise ValueError(f"{item} are no shapes")
    return found


Shapes = Annotated[tuple[tuple[int, ...], ...], PlainValidator(_shapes), PlainSerializer(_plain)]
"""Shapes of tensors, with sizes that may be free."""


class GraphValue(BaseModel):
    """One value of a graph, with the operation that makes it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    operator: str
    """`aten.add.Tensor`, `getitem`; or `input`, whose argument is the position, or `weight`, whose argument is the
    name in the module."""
    arguments: Annotated[tuple[Any, ...], AfterValidator(_read), PlainSerializer(_plain)] = ()
    """Numbers, strings, lists, None, or `{"value": name}` for another value."""
    keywords: Annotated[dict[str, Any], AfterValidator(_read), PlainSerializer(_plain)] = {}
    shapes: Shapes = ()
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
    def free(self) -> FreeSize | None:
        """The size that is free within a range, if there is one."""
        sizes = (size for value in self.values for shape in value.shapes for size in shape)
        return next((size.free for size in sizes if isinstance(size, DynamicSize)), None)

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
