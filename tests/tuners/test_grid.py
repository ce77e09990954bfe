"""Strides over a space."""

from __future__ import annotations

import pytest
from kernelwright.core import Config, SearchSpace, Tuner
from kernelwright.tuners.grid import Grid

from ..fakes import evaluation, kernel

SPACE = SearchSpace.of({"A": [1, 2, 3, 4], "B": [1, 2, 3]}, ["A + B != 5"])


def all_of(tuner: Tuner, batch: int = 1) -> list[Config]:
    asked: list[Config] = []
    while configs := tuner.ask(batch):
        asked += configs
    return asked


def test_by_default_in_the_order_of_the_space() -> None:
    assert all_of(Grid(SPACE)) == list(SPACE)


@pytest.mark.parametrize("stride", range(1, 15))
def test_every_index_is_reached_once(stride: int) -> None:
    asked = all_of(Grid(SPACE, stride), batch=4)
    assert asked[0] == next(iter(SPACE))
    assert sorted(map(str, asked)) == sorted(map(str, SPACE))


def test_the_first_pass_is_every_third() -> None:
    members = list(SPACE)
    assert all_of(Grid(SPACE, 3)) == [*members[0::3], *members[1::3], *members[2::3]]


def test_a_result_reported_between_asks_leaves_a_config_out() -> None:
    members = list(SPACE)
    grid = Grid(SPACE)
    first = grid.ask(2)
    grid.tell(members[2], evaluation(kernel(1.0), members[2], 1.0))
    assert [*first, *all_of(grid)] == [*members[:2], *members[3:]]
