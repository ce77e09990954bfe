"""Operators that only arrange elements: which element of which operand each element of their result is."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import cast

from ...core.dynamic_size import DynamicSize
from ...core.operator_graph import GraphValue, OperatorGraph, referenced
from .elementwise import COPIES
from .indices import Index, apart, broadcast, linear

_VIEWS = (
    *("view", "_unsafe_view", "reshape", "permute", "transpose", "t", "numpy_T", "expand", "repeat", "unsqueeze"),
    *("squeeze", "slice", "select", "flip", "broadcast_in_dim", "as_strided"),
)
_SPLITS = ("split_with_sizes", "split", "chunk", "unbind", "tensor_split")
CREATIONS = ("full", "arange", "scalar_tensor", "zeros", "ones", "zeros_like", "ones_like", "full_like", "empty")
"""Operators whose results follow from the indices alone."""


def plain_name(value: GraphValue) -> str:
    """Return an operator's name without namespace and overload: `aten.add.Tensor` is `add`."""
    parts = value.operator.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def split_of(graph: OperatorGraph, value: GraphValue) -> GraphValue | None:
    """Return the split operation that a part of a tensor comes from, or None."""
    if value.operator != "getitem":
        return None
    whole = graph.by_name[value.operands[0]]
    return whole if plain_name(whole) in _SPLITS else None


def is_view(graph: OperatorGraph, value: GraphValue) -> bool:
    """Return whether a value's elements are those of another value."""
    return plain_name(value) in (*_VIEWS, *COPIES, *_SPLITS) or split_of(graph, value) is not None


def is_creation(value: GraphValue) -> bool:
    """Return whether a value follows from its indices alone."""
    return plain_name(value) in CREATIONS


def base_of(graph: OperatorGraph, name: str) -> str:
    """Return the value behind a view, or a view of views; a value that is no view is its own base."""
    value = graph.by_name[name]
    while is_view(graph, value):
        value = graph.by_name[value.operands[0]]
    return value.name


def with_ordered_results(graph: OperatorGraph) -> OperatorGraph:
    """Return a graph whose results lie in memory as the reference's do.

    Elsewhere a copy of a transposed tensor is a view, read where it is; such a copy that is a result is computed.
    """
    copies = set[str]()
    for name in graph.outputs:
        value, found = graph.by_name[name], set[str]()
        while is_view(graph, value):
            if value.keywords.get("memory_format") == "contiguous_format":
                found.add(value.name)
            if plain_name(value) in ("permute", "transpose", "t", "numpy_T", "expand"):
                copies |= found
            value = graph.by_name[value.operands[0]]
    values = tuple(
        value.model_copy(update={"operator": "aten._to_copy.default"}) if value.name in copies else value
        for value in graph.values
    )
    return OperatorGraph(values=values, outputs=graph.outputs, form=graph.form) if copies else graph


def source(graph: OperatorGraph, value: GraphValue, indices: Sequence[Index]) -> tuple[str, tuple[Index, ...]]:
    """Return the value and the indices in it that hold an element of a view. Raises `KeyError` for an unknown form."""
    whole = split_of(graph, value)
    if whole is not None:
        return _part(graph, whole, value, indices)
    operand = graph.by_name[value.operands[0]]
    operator, given, found = plain_name(value), value.arguments, list(indices)
    match operator:
        case "permute" | "transpose" | "t" | "numpy_T":
            order = _order(operator, given, len(operand.shape))
            back = [order.index(place) for place in range(len(order))]
            return operand.name, tuple(found[place] for place in back)
        case "unsqueeze":
            del found[given[1] % len(found)]
        case "slice":
            dimension, start = _at(given, 1, 0) % len(found), _offset_at(given, 2)
            start = max(0, start + operand.shape[dimension]) if start < 0 else start
            found[dimension] = found[dimension].times(_at(given, 4, 1)).plus(start)
        case "select":
            dimension = given[1] % len(operand.shape)
            found.insert(dimension, Index((), given[2] % operand.shape[dimension]))
        case "broadcast_in_dim":
            found = [found[place] for place in given[2]]
        case "repeat":
            found = found[len(found) - len(operand.shape) :]
            found = [index.modulo(size) for index, size in zip(found, operand.shape, strict=True)]
        case "flip":
            for dimension in given[1]:
                place = dimension % len(found)
                found[place] = found[place].times(-1).plus(operand.shape[place] - 1)
        case "as_strided":
            return operand.name, _strided(graph, operand, value, found)
        case "squeeze":
            kept = iter(found)
            dropped = _dropped(operand.shape, value.shape, given)
            found = [Index() if place in dropped else next(kept) for place in range(len(operand.shape))]
        case _ if operator in ("expand", *COPIES):
            pass
        case _:  # of the views with as many elements
            found = list(apart(linear(found, value.shape), operand.shape)) if operand.shape != value.shape else found
    return operand.name, broadcast(found, operand.shape)


def _at(given: Sequence[object], place: int, default: int) -> int:
    found = given[place] if len(given) > place else None
    return found if isinstance(found, int) else default


def _offset_at(given: Sequence[object], place: int) -> int:
    """Return a number of elements to skip, which may be a free size; 0 by default."""
    found = given[place] if len(given) > place else None
    return cast("int", found) if isinstance(found, int | DynamicSize) else 0


def _order(operator: str, given: Sequence[object], rank: int) -> list[int]:
    if operator == "permute":
        assert isinstance(given[1], list)
        return [place % rank for place in given[1]]
    order = list(range(rank))
    if operator == "transpose":
        first, second = _at(given, 1, 0) % rank, _at(given, 2, 1) % rank
        order[first], order[second] = order[second], order[first]
        return order
    return order[::-1]


def _dropped(before: Sequence[int], after: Sequence[int], given: Sequence[object]) -> set[int]:
    if len(given) > 1:
        dims = given[1] if isinstance(given[1], list) else [given[1]]
        return {dim % len(before) for dim in dims if isinstance(dim, int) and before[dim % len(before)] == 1}
    assert prod(before) == prod(after)
    return {place for place, size in enumerate(before) if size == 1}


def _strided(
    graph: OperatorGraph, operand: GraphValue, value: GraphValue, indices: Sequence[Index]
) -> tuple[Index, ...]:
    if is_view(graph, operand):
        raise KeyError("as_strided of a view")
    position = Index((), _offset_at(value.arguments, 3))
    for index, stride in zip(indices, value.arguments[2], strict=True):
        position = position.plus(index.times(stride))
    return apart(position, operand.shape)


def _part(
    graph: OperatorGraph, whole: GraphValue, value: GraphValue, indices: Sequence[Index]
) -> tuple[str, tuple[Index, ...]]:
    operand, number = graph.by_name[whole.operands[0]], int(value.arguments[1])
    assert referenced(value.arguments[0]) == whole.name
    if plain_name(whole) == "unbind":
        dimension = _at(whole.arguments, 1, 0) % len(operand.shape)
        found = list(indices)
        found.insert(dimension, Index((), number))
        return operand.name, tuple(found)
    dimension = _at(whole.arguments, 2, 0)
    dimension = int(whole.keywords.get("dim", dimension)) % len(operand.shape)
    start = sum(shape[dimension] for shape in whole.shapes[:number])
    found = list(indices)
    found[dimension] = found[dimension].plus(start)
    return operand.name, broadcast(found, operand.shape)
