"""What the boosted trees are shown, and what they learn of it."""

from __future__ import annotations

import numpy as np
import pytest
from kernelwright.core import SearchSpace
from kernelwright.core.encoded_space import Rows
from kernelwright.tuners.cost_model import MEMBERS, CostModel
from kernelwright.tuners.features import PAIRED, Features
from kernelwright.tuners.observations import Floats

RNG = np.random.default_rng(0)
POINTS = RNG.uniform(-1, 1, size=(80, 3))
HELD_OUT = RNG.uniform(-1, 1, size=(200, 3))
SPACE = SearchSpace.of({"M": [16, 64], "MODE": ["row", "column"], "ONLY": [3], "N": [1, 2, 8]})


def truth(points: Floats) -> Floats:
    return np.asarray(2.0 + points[:, 0] ** 2 + 0.5 * points[:, 1])


def test_predicts_what_it_has_not_seen() -> None:
    right = truth(HELD_OUT)
    found = CostModel(POINTS, truth(POINTS), 1)(HELD_OUT)
    assert found.shape == (200,)
    assert np.sqrt(np.mean((found - right) ** 2)) < 0.4 * right.std()


def test_its_members_differ_and_it_is_their_mean() -> None:
    import xgboost

    model = CostModel(POINTS, truth(POINTS), 1)
    each = [member.predict(xgboost.DMatrix(HELD_OUT)) for member in model._members]
    assert len({tuple(member) for member in each}) == MEMBERS
    assert model(HELD_OUT) == pytest.approx(np.mean(each, axis=0))


def test_is_deterministic_given_its_seed() -> None:
    array, same, other = (CostModel(POINTS, truth(POINTS), seed)(HELD_OUT) for seed in (1, 1, 9))
    assert (array == same).all()
    assert (array != other).any()


def test_features_are_the_encodings_of_what_varies() -> None:
    rows = np.array([[0, 1, 0, 2], [1, 0, 0, 0]], dtype=np.int32)
    assert Features(SPACE)(rows).tolist() == [[4, 1, 3], [6, 0, 0]]


def test_pairs_are_products_and_ratios_of_numbers() -> None:
    """As logarithms: sums and differences, of N and M here."""
    rows = np.array([[0, 1, 0, 2], [1, 0, 0, 0]], dtype=np.int32)
    assert Features(SPACE, paired=True)(rows).tolist() == [[4, 1, 3, 7, -1], [6, 0, 0, 6, -6]]


def test_derived_columns_come_last() -> None:
    rows = np.array([[0, 1, 0, 2], [1, 0, 0, 0]], dtype=np.int32)

    def derived(rows: Rows) -> Floats:
        return np.asarray(rows[:, :2] + 0.5)

    assert Features(SPACE, derived)(rows).tolist() == [[4, 1, 3, 0.5, 1.5], [6, 0, 0, 1.5, 0.5]]


@pytest.mark.parametrize(("count", "columns"), [(PAIRED, PAIRED**2), (PAIRED + 1, PAIRED + 1)])
def test_too_many_pairs_are_left_out(count: int, columns: int) -> None:
    space = SearchSpace.of({f"P{i}": [1, 2] for i in range(count)})
    assert Features(space, paired=True)(np.zeros((1, count), dtype=np.int32)).shape == (1, columns)
