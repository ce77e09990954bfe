"""Softmax in a graph, written out or decomposed."""

from __future__ import annotations

from dataclasses import dataclass

from ....core.operator_graph import GraphValue, OperatorGraph
from ..elementwise import CONVERSIONS
from ..rows.reductions import reduction_of
from ..views import base_of, is_view, plain_name


@dataclass(frozen=True)
class Softmax:
    """A softmax that is written out, or decomposed."""

    weights: str
    """The quotient of exponentials and their sum."""
    scores: str
    inside: frozenset[str]
    """All that it computes."""


def softmax_of(graph: OperatorGraph, name: str) -> Softmax | None:
    """Return a value as a softmax over the last dimension, up to its arrangement and dtype."""
    value = _through(graph, graph.by_name[name])
    if plain_name(value) != "div" or len(value.operands) != 2:
        return None
    exponentials, total = (graph.by_name[operand] for operand in value.operands)
    total = graph.by_name[base_of(graph, total.name)]
    summed = reduction_of(graph, total)
    if plain_name(exponentials) != "exp" or summed is None or summed.kind != "sum":
        return None
    difference = graph.by_name[exponentials.operands[0]]
    if plain_name(difference) != "sub" or len(difference.operands) != 2 or summed.operand.name != exponentials.name:
        return None
    scores, most = difference.operands
    largest = reduction_of(graph, graph.by_name[base_of(graph, most)])
    last = (len(value.shape) - 1,)
    if largest is None or largest.kind != "amax" or largest.operand.name != scores:
        return None
    if largest.dimensions != last or summed.dimensions != last:
        return None
    inside = {value.name, exponentials.name, total.name, difference.name, largest.name}
    return Softmax(value.name, scores, frozenset(inside))


def _through(graph: OperatorGraph, value: GraphValue) -> GraphValue:
    while is_view(graph, value) or plain_name(value) in CONVERSIONS:
        value = graph.by_name[value.operands[0]]
    return value
