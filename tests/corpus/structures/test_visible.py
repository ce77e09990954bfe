"""Ranges of visible keys hold all keys that a mask shows, whatever tile they are of."""

from __future__ import annotations

from typing import Any

import pytest
from kernelwright.core.dynamic_size import DynamicSize, FreeSize
from kernelwright.corpus.structures.attention.visible import (
    ALWAYS,
    KEY,
    QUERY,
    UNKNOWN,
    Condition,
    bounds,
    covers_rows,
)
from kernelwright.corpus.structures.indices import Index, Symbol

QUERIES, KEYS, TILE = 37, 50, 8
DIFFERENCE = Index.of(Symbol(QUERY, QUERIES)).plus(Index.of(Symbol(KEY, KEYS)).times(-1))


def at_least(index: Index, number: int) -> Condition:
    return Condition("sum", index.plus(-number))


CAUSAL = at_least(DIFFERENCE, 0)
WINDOW = Condition("and", parts=(CAUSAL, at_least(DIFFERENCE.times(-1), -9)))
PREFIX = Condition("or", parts=(CAUSAL, at_least(Index.of(Symbol(KEY, KEYS)).times(-1), -12)))
SHIFTED = at_least(DIFFERENCE, -(KEYS - QUERIES))
LATER = at_least(DIFFERENCE.times(-1), 0)
EVERY_OTHER = at_least(Index.of(Symbol(QUERY, QUERIES)).plus(Index.of(Symbol(KEY, KEYS)).times(-2)), 0)


class Numbers:
    """The functions of Triton that ranges use."""

    maximum = staticmethod(max)
    minimum = staticmethod(min)


@pytest.mark.parametrize("condition", [CAUSAL, WINDOW, PREFIX, SHIFTED, LATER, EVERY_OTHER, ALWAYS])
def test_no_visible_key_is_skipped(condition: Condition) -> None:
    lower, upper = bounds(condition)
    for first in range(0, QUERIES, TILE):
        last = min(first + TILE, QUERIES) - 1
        names = {"first": first, "last": last, "tl": Numbers}
        begin, end = (eval(text, names) if text else default for text, default in ((lower, 0), (upper, KEYS)))
        tile = range(first, last + 1)
        shown = [key for key in range(KEYS) for query in tile if condition.shows(Index((), query), Index((), key))]
        assert all(max(begin, 0) <= key < min(end, KEYS) for key in shown)
        if condition in (CAUSAL, WINDOW, PREFIX, SHIFTED, LATER) and shown:
            assert (max(begin, 0), min(end, KEYS)) == (min(shown), max(shown) + 1), "and no more than these"


def test_an_unknown_part_of_a_mask_leaves_the_ranges_of_the_others() -> None:
    assert bounds(Condition("and", parts=(CAUSAL, UNKNOWN))) == bounds(CAUSAL)
    assert bounds(Condition("or", parts=(CAUSAL, UNKNOWN))) == (None, None)


def test_queries_without_any_visible_key_are_noticed() -> None:
    assert all(covers_rows(condition, QUERIES, KEYS) for condition in (CAUSAL, WINDOW, PREFIX, SHIFTED))
    assert not covers_rows(at_least(DIFFERENCE, 1), QUERIES, KEYS), "the first query sees none"
    assert not covers_rows(WINDOW, KEYS + 10, KEYS), "the last query sees none"


def test_rows_are_covered_in_all_of_a_range() -> None:
    tokens: Any = DynamicSize.of(FreeSize("tokens", 1, 100), (0, 1))
    difference = Index.of(Symbol(QUERY, tokens)).plus(Index.of(Symbol(KEY, tokens)).times(-1))
    assert covers_rows(at_least(difference, 0), tokens, tokens)
    assert covers_rows(at_least(difference, -7), tokens, tokens + 7), "keys of earlier tokens"
    assert not covers_rows(at_least(difference, 7), tokens, tokens + 7)
    assert not covers_rows(at_least(Index.of(Symbol(KEY, tokens)), 5), tokens, tokens), "few tokens have no fifth key"
    assert bounds(at_least(difference, 0 - tokens)) == (None, "last + (size_tokens + 1)")
