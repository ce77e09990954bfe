"""First configs, and what is drawn when a search is stuck."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from kernelwright.core import Config, SearchSpace, encoded_space
from kernelwright.core.encoded_space import Rows
from kernelwright.tuners.observations import Observations
from kernelwright.tuners.start import any_fresh, diverse, fastest, within

SPACE = SearchSpace.of({"A": list(range(10)), "B": list(range(10))})
WIDE = SearchSpace.of({f"P{i}": list(range(4)) for i in range(6)})


def config(a: int, b: int = 0) -> Config:
    return Config({"A": a, "B": b})


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_the_fastest_elsewhere() -> None:
    warm = [(config(0), 3.0), (config(1), None), (config(2), 1.0), (config(3), 2.0), (config(4), 1.0)]
    assert fastest(warm, 3, SPACE) == [config(2), config(4), config(3)]
    assert fastest(warm, 99, SPACE) == [config(2), config(4), config(3), config(0)]
    assert fastest((), 3, SPACE) == []


def test_several_recordings_of_the_same_configs_give_different_ones() -> None:
    warm = [(config(a), float(a)) for a in range(1, 6)] * 3
    assert fastest(warm, 3, SPACE) == [config(1), config(2), config(3)]


def test_what_is_fast_elsewhere_and_no_member_takes_no_place() -> None:
    warm = [(config(50), 0.1), (Config({"Z": 1}), 0.2), (config(3), 1.0), (config(4), 2.0)]
    assert fastest(warm, 2, SPACE) == [config(3), config(4)]


def test_members_among_given_configs() -> None:
    given = [config(3, 4), config(77), Config({"A": 1}), config(0, 1), config(3, 4)]
    assert within(SPACE, given).tolist() == [[3, 4], [0, 1]]
    assert within(SPACE, []).shape == (0, 2)


def apart(rows: Rows) -> float:
    """In how many parameters a row differs from the nearest other one, on average."""
    distance = (rows[:, None] != rows[None]).sum(axis=2)
    np.fill_diagonal(distance, rows.shape[1])
    return float(distance.min(axis=1).mean())


def test_spread_rows_are_farther_apart_than_random_ones() -> None:
    spaced = np.mean([apart(diverse(WIDE, 8, rng(seed))) for seed in range(20)])
    drawn = np.mean([apart(WIDE.encoded.sample(8, rng(seed))) for seed in range(20)])
    assert spaced > drawn + 0.5


@pytest.mark.parametrize("count", [0, 1, 2, 30, 99])
def test_spread_gives_so_many_different_members(count: int) -> None:
    space = SearchSpace.of({"A": list(range(8)), "B": list(range(8))}, ["A + B < 8"])
    rows = diverse(space, count, rng())
    assert len(space.encoded.unique(rows)) == len(rows) == min(count, 36)
    assert space.encoded.allowed(rows).all()


def test_two_spread_rows_differ_in_everything() -> None:
    for seed in range(20):
        (first, second) = diverse(WIDE, 2, rng(seed))
        assert (first != second).sum() >= 5


def test_any_member_is_as_likely() -> None:
    space = SearchSpace.of({"A": [1, 2, 3, 4]})
    source, seen = rng(), Observations(space)
    seen.ask(np.array([1], dtype=np.int32))
    drawn = [int(any_fresh(space, seen, source)[0, 0]) for _ in range(300)]
    assert set(drawn) == {0, 2, 3}
    assert all(60 < drawn.count(position) < 140 for position in (0, 2, 3))


@pytest.mark.parametrize("most", [10, 10**6], ids=["sampled", "listed"])
def test_the_last_member_is_found_and_then_none(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoded_space, "ENUMERATED", most)
    space = SearchSpace.of({"A": list(range(6)), "B": list(range(5))})
    assert (space.encoded.members is None) == (most == 10)
    seen = Observations(space)
    for a, b in combinations(range(6), 2):
        seen.ask(np.array([a, b - 1], dtype=np.int32))
    for _ in range(15):
        row = any_fresh(space, seen, rng())
        assert seen.is_fresh(row).tolist() == [True]
        seen.ask(row[0])
    assert any_fresh(space, seen, rng()).shape == (0, 2)


def test_the_last_of_many_are_found_one_as_often_as_the_other() -> None:
    space = SearchSpace.of({"A": list(range(100)), "B": list(range(100))})
    seen = Observations(space)
    members = space.encoded.members
    assert members is not None
    for row in members[1:-1]:
        seen.ask(row)
    drawn = [any_fresh(space, seen, rng(seed)).tolist() for seed in range(30)]
    assert drawn.count([[0, 0]]) + drawn.count([[99, 99]]) == 30
    assert 8 < drawn.count([[0, 0]]) < 22
