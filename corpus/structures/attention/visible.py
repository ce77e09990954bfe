"""The keys that a tile's queries may see, from masks that depend on indices: other keys are skipped.

A mask is read as comparisons of sums of indices, joined by 'and' and 'or'. Any other part (a tensor of the
caller's) counts as 'visible', since the mask itself is applied to the scores in any case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from ....core.dynamic_size import DynamicSize, is_below, is_dynamic
from ....core.operator_graph import GraphValue, referenced
from ..elementwise import CONVERSIONS
from ..emitter import Emitter, Indices, RefusedError
from ..indices import Index, Symbol, broadcast
from ..views import is_creation, is_view, plain_name, source

QUERY, KEY = "query", "key"
"""Texts of the symbols."""
HIDDEN = -1e8
"""A score of at most this hides its key, since its exponential is negligible next to those of others."""


@dataclass(frozen=True)
class Condition:
    """Whether a key is visible: unknown, a sum that is not negative, or conditions joined by `and` or `or`."""

    kind: str
    index: Index = field(default_factory=Index)
    parts: tuple[Condition, ...] = ()

    def shows(self, query: Index, key: Index) -> bool:
        """Return whether each of the queries certainly sees its key, which is an index over them."""
        if self.kind == "sum":
            values, found = {QUERY: query, KEY: key}, Index((), self.index.offset)
            for symbol, factor in self.index.terms:
                found = found.plus(values[symbol.text].times(factor))
            return is_below(-1, found.least)
        return (self.kind == "and" and all(part.shows(query, key) for part in self.parts)) or (
            self.kind == "or" and any(part.shows(query, key) for part in self.parts)
        )


UNKNOWN, ALWAYS = Condition("unknown"), Condition("and")


@dataclass(frozen=True)
class Hidden:
    """The condition of visible keys, and whether hidden scores are minus infinity, not only very small."""

    condition: Condition
    infinite: bool = True


def bounds(condition: Condition) -> tuple[str | None, str | None]:
    """Return the range of visible keys, without its end, of the queries from `first` to `last`, as Triton code."""
    if condition.kind == "sum":
        return _bounds_of_sum(condition.index)
    if condition.kind not in ("and", "or") or not condition.parts:
        return None, None
    lower, upper = zip(*map(bounds, condition.parts), strict=True)
    both = condition.kind == "and"
    return _joined(lower, "tl.maximum" if both else "tl.minimum", both), _joined(
        upper, "tl.minimum" if both else "tl.maximum", both
    )


def _joined(texts: Sequence[str | None], function: str, skip: bool) -> str | None:
    known = list(dict.fromkeys(text for text in texts if text is not None))
    if not known or (not skip and None in texts):
        return None
    found = known[0]
    for text in known[1:]:
        found = f"{function}({found}, {text})"
    return found


def _bounds_of_sum(index: Index) -> tuple[str | None, str | None]:
    factors = {symbol.text: factor for symbol, factor in index.terms}
    own = factors.pop(KEY, 0)
    if own not in (1, -1) or set(factors) - {QUERY}:
        return None, None
    factor, offset = -own * factors.get(QUERY, 0), -own * index.offset  # the key is at least, or most, this
    if own == 1:
        return _sum(factor, "first" if factor >= 0 else "last", offset), None
    return None, _sum(factor, "last" if factor >= 0 else "first", offset + 1)


def _sum(factor: int, name: str, offset: int) -> str:
    if not factor:
        return str(offset)
    text = name if factor == 1 else f"{factor} * {name}"
    if is_dynamic(offset):
        return f"{text} + {offset}"
    return text if not offset else f"{text} {'+' if offset > 0 else '-'} {abs(offset)}"


def covers_rows(condition: Condition, queries: int, keys: int) -> bool:
    """Return whether each query certainly sees a key: its own, counted from the first or last one, or the same for all.

    Sizes may be free within a range, in all of which it holds then.
    """
    query = Index.of(Symbol(QUERY, queries)) if queries != 1 else Index()
    likely = (query, query.plus(keys - queries), Index(), Index((), keys - 1))
    return any(is_below(-1, key.least) and is_below(key.most, keys) and condition.shows(query, key) for key in likely)


class Masks:
    """Reads masks of a graph."""

    def __init__(self, emitter: Emitter) -> None:
        """`emitter` finds indices; the lines that it writes are thrown away."""
        self._emitter = emitter
        self._graph = emitter.graph

    def of_scores(self, name: str, indices: Indices) -> Hidden:
        """Return what hides keys in an expression of scores."""
        value = self._graph.by_name[name]
        if is_view(self._graph, value):
            return self.of_scores(*source(self._graph, value, indices))
        operator = plain_name(value)
        if operator in CONVERSIONS:
            return self.of_scores(value.operands[0], indices)
        if operator == "where":
            flag, left, right = value.arguments
            for fill, other, negated in ((left, right, True), (right, left, False)):
                number = self._number(fill)
                if number is not None and number <= HIDDEN:
                    inner = self._of(other, indices)
                    own = self.condition(flag, self._at(flag, indices), negated)
                    return _both(inner, Hidden(own, number == float("-inf")))
        if operator == "add" and len(value.operands) == 2 and not value.keywords:
            return _both(*(self._of(item, indices) for item in value.arguments[:2]))
        if operator == "mul" and (number := self._number(value.arguments[1])) is not None and number > 0:
            inner = self._of(value.arguments[0], indices)
            return inner if inner.infinite else Hidden(ALWAYS)
        return Hidden(ALWAYS)

    def _of(self, argument: object, indices: Indices) -> Hidden:
        name = referenced(argument)
        return Hidden(ALWAYS) if name is None else self.of_scores(name, self._at(argument, indices))

    def _at(self, argument: object, indices: Indices) -> Indices:
        name = referenced(argument)
        assert name is not None
        return broadcast(indices, self._graph.by_name[name].shape)

    def _number(self, argument: object) -> float | None:
        """Return an argument that is one number everywhere."""
        name = referenced(argument)
        if name is None:
            return float(argument) if isinstance(argument, int | float | str) else None
        value = self._graph.by_name[name]
        if is_creation(value) and plain_name(value) in ("full", "scalar_tensor", "full_like"):
            fill = value.arguments[-1 if plain_name(value) == "scalar_tensor" else 1]
            return None if isinstance(fill, DynamicSize) else float(fill)
        if is_view(self._graph, value) or plain_name(value) in CONVERSIONS:
            return self._number(value.arguments[0])
        return None

    def condition(self, argument: object, indices: Indices, negated: bool = False) -> Condition:
        """Return a flag at an index as a condition, or that it is not set."""
        name = referenced(argument)
        if name is None:
            return UNKNOWN
        value = self._graph.by_name[name]
        if is_view(self._graph, value):
            inner, place = source(self._graph, value, indices)
            return self.condition({"value": inner}, place, negated)
        number = self._number(argument)
        if number is not None:
            return ALWAYS if bool(number) != negated else Condition("or")
        operator = plain_name(value)
        if operator in CONVERSIONS and self._graph.by_name[value.operands[0]].dtype == "bool":
            return self.condition(value.arguments[0], indices, negated)
        if operator in ("logical_not", "bitwise_not"):
            return self.condition(value.arguments[0], self._at(value.arguments[0], indices), not negated)
        if operator in ("logical_and", "bitwise_and", "__and__", "logical_or", "bitwise_or", "__or__", "mul"):
            joined = "or" if ("or" in operator) != negated else "and"
            return Condition(
                joined,
                parts=tuple(self.condition(item, self._at(item, indices), negated) for item in value.arguments[:2]),
            )
        if operator == "where" and value.dtype in ("bool", "float32"):
            return self._chosen(value, indices, negated)
        if operator in ("eq", "ne") and self._number(value.arguments[1]) == 0:
            flags = referenced(value.arguments[0])
            if flags is not None and self._emits_flags(flags):
                return self.condition(
                    value.arguments[0], self._at(value.arguments[0], indices), negated != (operator == "eq")
                )
        return self._comparison(value, operator, indices, negated)

    def _emits_flags(self, name: str) -> bool:
        """Return whether a value is zero where a flag is not set, as that of torch.tril(torch.ones(...)) is."""
        value = self._graph.by_name[name]
        if is_view(self._graph, value) or plain_name(value) in CONVERSIONS:
            return self._emits_flags(value.operands[0])
        return value.dtype == "bool" or plain_name(value) == "where"

    def _chosen(self, value: GraphValue, indices: Indices, negated: bool) -> Condition:
        """Return where(flag, a, b) of numbers as a condition that it is not zero."""
        flag, left, right = value.arguments
        numbers = self._number(left), self._number(right)
        if None in numbers or bool(numbers[0]) == bool(numbers[1]):
            return UNKNOWN
        return self.condition(flag, self._at(flag, indices), negated != (not numbers[0]))

    def _comparison(self, value: GraphValue, operator: str, indices: Indices, negated: bool) -> Condition:
        if operator not in ("ge", "gt", "le", "lt"):
            return UNKNOWN
        left, right = (self._index(item, indices) for item in value.arguments[:2])
        if left is None or right is None:
            return UNKNOWN
        if negated:
            operator = {"ge": "lt", "gt": "le", "le": "gt", "lt": "ge"}[operator]
        more, less = (left, right) if operator in ("ge", "gt") else (right, left)
        difference = more.plus(less.times(-1)).plus(0 if operator in ("ge", "le") else -1)
        if {symbol.text for symbol, _ in difference.terms} - {QUERY, KEY}:
            return UNKNOWN
        return Condition("sum", difference)

    def _index(self, argument: object, indices: Indices) -> Index | None:
        if isinstance(argument, int | DynamicSize):
            return Index((), cast("int", argument))
        if referenced(argument) is None:
            return None
        try:
            return self._emitter.operand(argument, indices, "int64").index
        except RefusedError:
            return None


def _both(first: Hidden, second: Hidden) -> Hidden:
    parts = [item.condition for item in (first, second) if item.condition != ALWAYS]
    infinite = first.infinite and second.infinite
    return Hidden(Condition("and", parts=tuple(parts)) if parts else ALWAYS, infinite)
