"""Arithmetic of indices agrees with torch's own views, and keeps what cancels short."""

from __future__ import annotations

import pytest
import torch
from kernelwright.corpus.structures.indices import Index, Symbol, apart, linear

ROW, COLUMN = Symbol("row", 6), Symbol("column", 20)


def test_what_is_taken_apart_and_put_together_is_the_same() -> None:
    position = Index.of(ROW).times(20).plus(Index.of(COLUMN))
    assert linear(apart(position, (6, 20)), (6, 20)) == position
    assert linear(apart(position, (2, 3, 4, 5)), (2, 3, 4, 5)) == position
    assert apart(position, (6, 20)) == (Index.of(ROW), Index.of(COLUMN))


@pytest.mark.parametrize("shape", [(6, 20), (120,), (2, 60), (3, 2, 4, 5), (5, 4, 6), (8, 15)])
def test_indices_are_those_of_a_reshape(shape: tuple[int, ...]) -> None:
    numbers = torch.arange(120).reshape(6, 20)
    found = apart(linear((Index.of(ROW), Index.of(COLUMN)), (6, 20)), shape)
    for row in range(6):
        for column in range(20):
            place = tuple(eval(index.text, {"row": row, "column": column}) for index in found)
            assert numbers.reshape(shape)[place] == numbers[row, column]
            assert all(0 <= index.least <= at <= index.most for index, at in zip(found, place, strict=True))


def test_masks_follow_symbols_through_quotients() -> None:
    masked = Index.of(Symbol("x", 7, frozenset({"x_mask"})))
    assert masked.over(2).masks == masked.modulo(3).plus(1).masks == {"x_mask"}
    assert Index.of(3).masks == frozenset()
