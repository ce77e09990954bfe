"""Reductions of a graph: their operands, dimensions and kinds."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

from ....core.operator_graph import GraphValue, OperatorGraph, referenced
from ..elementwise import DTYPES
from ..emitter import Indices
from ..indices import Index, Symbol, apart
from ..views import base_of, plain_name

Kind = Literal["sum", "mean", "amax", "amin", "var"]
_KINDS: dict[str, Kind] = {"sum": "sum", "mean": "mean", "amax": "amax", "amin": "amin", "var": "var"}


@dataclass(frozen=True)
class RowReduction:
    """One reduction."""

    name: str
    kind: Kind
    operand: GraphValue
    dimensions: tuple[int, ...]
    correction: float = 0.0
    """For a variance, the number subtracted from the number of elements."""
    kept: bool = False
    """Whether the reduced dimensions stay, of size 1."""

    @property
    def others(self) -> tuple[int, ...]:
        """The dimensions that are not reduced."""
        return tuple(place for place in range(len(self.operand.shape)) if place not in self.dimensions)

    @property
    def rows(self) -> int:
        """The number of results."""
        return prod(self.operand.shape[place] for place in self.others)

    @property
    def width(self) -> int:
        """The number of elements of each."""
        return prod(self.operand.shape[place] for place in self.dimensions)

    def element(self, row: Symbol, column: Symbol) -> Indices:
        """Return the indices of an element of a row in the operand."""
        found = [Index()] * len(self.operand.shape)
        for places, symbol in ((self.others, row), (self.dimensions, column)):
            sizes = [self.operand.shape[place] for place in places]
            for place, index in zip(places, apart(Index.of(symbol), sizes), strict=True):
                found[place] = index
        return tuple(found)

    def result(self, row: Symbol) -> Indices:
        """Return the indices of a row's result."""
        parts = iter(apart(Index.of(row), [self.operand.shape[place] for place in self.others]))
        if not self.kept:
            return tuple(parts)
        return tuple(Index() if place in self.dimensions else next(parts) for place in range(len(self.operand.shape)))


def reduction_of(graph: OperatorGraph, value: GraphValue) -> RowReduction | None:
    """Return a value as a reduction, if structures support it."""
    kind = _KINDS.get(plain_name(value))
    if kind is None or not value.operands or len(value.shapes) != 1:
        return None
    operand = graph.by_name[value.operands[0]]
    if value.dtype not in DTYPES or operand.dtype not in DTYPES or not operand.shape:
        return None
    given = [item for item in value.arguments[1:] if referenced(item) is None]
    dims = given[0] if given and isinstance(given[0], list | int) else value.keywords.get("dim")
    dims = [dims] if isinstance(dims, int) else dims
    dimensions = sorted(dim % len(operand.shape) for dim in dims) if dims else list(range(len(operand.shape)))
    kept = len(value.shape) == len(operand.shape) and bool(value.keywords.get("keepdim", True))
    correction = 0.0
    if kind == "var":
        correction = value.keywords.get("correction", given[1] if len(given) > 1 else 1.0)
        correction = 1.0 if correction is None else float(correction)
    return RowReduction(value.name, kind, operand, tuple(dimensions), correction, kept)


def exponential_sum(graph: OperatorGraph, item: RowReduction) -> str | None:
    """Return the maximum m in a sum of exp(x - m), if m is the maximum of the same elements; otherwise None."""
    if item.kind != "sum" or plain_name(item.operand) != "exp":
        return None
    difference = graph.by_name[item.operand.operands[0]]
    if plain_name(difference) != "sub" or len(difference.operands) != 2:
        return None
    elements, most = difference.operands
    most = base_of(graph, most)
    found = reduction_of(graph, graph.by_name[most])
    same = found is not None and found.kind == "amax" and found.operand.name == elements
    return most if same and found is not None and found.dimensions == item.dimensions else None
