"""Walks over a model's predictions, and the batches that are chosen from them."""

from __future__ import annotations

import numpy as np
import pytest
from kernelwright.core import Config, SearchSpace
from kernelwright.core.encoded_space import Rows
from kernelwright.tuners import xgboost_search
from kernelwright.tuners.model_annealing import anneal
from kernelwright.tuners.observations import Floats
from kernelwright.tuners.xgboost_search import BATCH, NEAR, XGBoostSearch

from ..fakes import evaluation, kernel

WIDE = SearchSpace.of({f"P{i}": list(range(8)) for i in range(8)})
SPACE = SearchSpace.of({"A": list(range(10)), "B": list(range(10)), "C": list(range(10))}, ["A + B + C <= 20"])
KERNEL = kernel(1.0)


def bowl(rows: Rows | Floats) -> Floats:
    """Least where all positions are 5."""
    return np.asarray(((rows - 5.0) ** 2).sum(axis=1))


def test_anneal_goes_down() -> None:
    """Further than as many looks at random."""
    reached = by_chance = 0.0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        rows, predicted = anneal(WIDE.encoded, bowl, WIDE.encoded.sample(32, rng), rng)
        drawn = bowl(WIDE.encoded.sample(len(rows), rng))
        assert np.median(predicted) < 0.85 * np.median(drawn)
        reached, by_chance = reached + predicted.min(), by_chance + drawn.min()
    assert reached < 0.6 * by_chance


def test_anneal_finds_the_least_of_a_small_space() -> None:
    rng = np.random.default_rng(0)
    rows, predicted = anneal(SPACE.encoded, bowl, SPACE.encoded.sample(64, rng), rng)
    assert rows[np.argmin(predicted)].tolist() == [5, 5, 5]


def test_anneal_looks_at_members_only_and_names_each_once() -> None:
    rng = np.random.default_rng(0)
    starts = SPACE.encoded.sample(16, rng)
    rows, predicted = anneal(SPACE.encoded, bowl, starts, rng)
    assert SPACE.encoded.allowed(rows).all()
    assert len(SPACE.encoded.unique(rows)) == len(rows)
    assert (predicted == bowl(rows)).all()
    assert set(map(tuple, starts.tolist())) <= set(map(tuple, rows.tolist()))


class Oracle:
    """A cost model that knows the bowl, from features that are the positions."""

    def __init__(self, features: Floats, targets: Floats, seed: int) -> None:
        pass

    def __call__(self, features: Floats) -> Floats:
        return bowl(features[:, :3])


@pytest.fixture
def oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xgboost_search, "CostModel", Oracle)
    monkeypatch.setattr(xgboost_search, "EXPLORED", 0.0)


def searched(*configs: Config) -> XGBoostSearch:
    """A search whose first configs are over; the slower, the farther they are from (2, 2, 2)."""
    tuner = XGBoostSearch(SPACE, 0)
    tuner.ask(8)
    for config in configs:
        off = sum(abs(int(value) - 2) for value in config.values())
        tuner.tell(config, evaluation(KERNEL, config, 1.0 + off))
    return tuner


def differing(first: Config, second: Config) -> int:
    return sum(first[name] != second[name] for name in first)


BEST = Config({"A": 2, "B": 2, "C": 2})


@pytest.mark.usefixtures("oracle")
def test_a_batch_is_what_the_model_takes_for_the_fastest() -> None:
    tuner = searched(BEST, Config({"A": 9, "B": 9, "C": 2}))
    batch = tuner.ask(BATCH)
    near, far = batch[:NEAR], batch[NEAR:]
    assert [sorted(map(int, map(str, config.values()))) for config in near] == [[2, 2, 5]] * NEAR
    assert far[0] == Config({"A": 5, "B": 5, "C": 5})


def test_of_many_that_are_alike_few_are_chosen() -> None:
    """Of those that differ in one value only, no row follows two."""
    rows = np.array([[5, 5, 5], [5, 5, 6], [5, 5, 4], [5, 4, 5], [5, 6, 6], [4, 4, 4]], dtype=np.int32)
    chosen = xgboost_search._diverse(rows, rows[:0], 4)
    assert [row.tolist() for row in chosen] == [[5, 5, 5], [5, 5, 6], [5, 4, 5], [5, 6, 6]]


def test_what_is_taken_is_not_chosen_again() -> None:
    rows = np.array([[1, 1, 1], [2, 2, 2], [3, 3, 3]], dtype=np.int32)
    assert [row.tolist() for row in xgboost_search._diverse(rows, rows[:1], 9)] == [[2, 2, 2], [3, 3, 3]]


@pytest.mark.usefixtures("oracle")
def test_a_share_is_drawn_by_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xgboost_search, "EXPLORED", 1.0)
    batch = searched(BEST).ask(BATCH)
    assert len(batch) == BATCH
    assert all(differing(config, BEST) > 1 for config in batch[:NEAR])


@pytest.mark.parametrize(("given", "before"), [(0, 8), (3, 8), (8, 9)])
def test_random_configs_make_up_what_the_given_ones_leave(
    given: int, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight before the first model, and at least a random one."""
    start = [Config({"A": a, "B": 0, "C": 0}) for a in range(given)]
    tuner = XGBoostSearch(SPACE, 0, start)
    monkeypatch.setattr(tuner, "_propose", list)
    asked = tuner.ask(99)
    assert asked[:given] == start
    assert len(asked) == before
