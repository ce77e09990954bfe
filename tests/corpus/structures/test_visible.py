"""Ranges of visible keys hold all keys that a mask shows, whatever tile they are of."""

from __future__ import annotations

import pytest
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
        shown = [key for key in range(KEYS) for query in range(first, last + 1) if condition.holds(query, key)]
        assert all(max(begin, 0) <= key < min(end, KEYS) for key in shown)
        if condition in (CAUSAL, WINDOW, PREFIX, SHIFTED, LATER) and shown:
            assert (max(begin, 0), min(end, KEYS)) == (min(shown), max(shown) + 1), "and no more than these"


def test_an_unknown_part_of_a_mask_leaves_the_ranges_of_the_others() -> None:
    assert bounds(Condition("and", parts=(CAUSAL, UNKNOWN))) == bounds(CAUSAL)
    assert bounds(Condition("or", parts=(CAUSAL, UNKNOWN))) == (None, None)


def test_queries_without_any_visible_key_are_noticed() -> None:
    assert covers_rows(CAUSAL, QUERIES, KEYS)
    assert not covers_rows(at_least(DIFFERENCE, 1), QUERIES, KEYS), "the first query sees none"
