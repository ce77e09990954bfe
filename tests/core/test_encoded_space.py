"""The rows of a space say the same as its configs."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernelwright.core import Config, SearchSpace, SpaceError

SPACE = SearchSpace.of({"A": [1, 2, 4, 8], "B": [0, 1, 2, 3], "C": ["x", "y"], "D": [True, False]}, ["A * B <= 12"])
CONSTRAINTS = [
    "A * 4611686018427387904 > 0 and A * 4611686018427387904 <= 9223372036854775808",
    "(A if C == 'x' else 'none') == 4",
    "(D and C) == 'x'",
    "A * B <= 8",
    "A % B == 0",
    "B != 0 and A % B == 0",
    "C == 'x' or A > 2",
    "C in ('x', 'z')",
    "A in (1, 4) and not D",
    "(A > 2) + (B > 1) <= 1",
    "min(A, B) == B",
    "max([A, B]) > 3",
    "(A if D else B) > 1",
    "-A < -2 < B",
    "abs(A - B) > 2",
    "D",
    "(A or 3) * 2 > 4",
    "A / 2 > B",
    "C < 'y'",
]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(CONSTRAINTS), max_size=3))
def test_constraints_over_columns_decide_as_over_single_configs(constraints: list[str]) -> None:
    values = {"A": [1, 2, 4, 8], "B": [0, 1, 2, 3], "C": ["x", "y"], "D": [True, False]}
    try:
        space = SearchSpace.of(values, constraints)
    except SpaceError:
        return
    members = space.encoded.members
    assert members is not None
    assert [space.encoded.config(row) for row in members] == list(space)
    everything = SearchSpace.of(values).encoded.members
    assert everything is not None
    allowed = space.encoded.allowed(everything)
    assert [space.encoded.config(row) in space for row in everything] == allowed.tolist()


def test_rows_and_configs_are_each_others_inverse() -> None:
    encoded = SPACE.encoded
    rows = SPACE.encoded.members
    assert rows is not None
    assert (encoded.rows(encoded.config(row) for row in rows) == rows).all()
    assert len(np.unique(encoded.keys(rows))) == SPACE.size


def test_encoding_is_that_of_the_parameters() -> None:
    rows = SPACE.encoded.members
    assert rows is not None
    assert [tuple(row) for row in SPACE.encoded.encode(rows)] == [
        tuple(parameter.encode(config[parameter.name]) for parameter in SPACE.parameters) for config in SPACE
    ]


def test_neighbours_differ_in_one_parameter() -> None:
    row = SPACE.encoded.rows([Config({"A": 4, "B": 3, "C": "x", "D": True})])[0]
    found = [SPACE.encoded.config(other) for other in SPACE.encoded.neighbours(row)]
    assert len(found) == len(set(found)) == 3 - 1 + 3 + 1 + 1
    assert all(config in SPACE for config in found)


def test_a_space_too_large_to_list_is_sampled() -> None:
    space = SearchSpace.of({f"P{i}": [1, 2, 4, 8, 16] for i in range(20)}, ["P0 * P1 <= 16"])
    assert space.encoded.members is None
    rows = space.encoded.sample(500, np.random.default_rng(1))
    assert len(rows) == 500 and all(space.encoded.config(row) in space for row in rows[:20])


@pytest.mark.parametrize("constraint", ["P18 + P19 > 100", "P0 * P19 < 0"])
def test_a_contradiction_is_found_however_large_the_space(constraint: str) -> None:
    with pytest.raises(SpaceError, match="no config satisfies 'P"):
        SearchSpace.of({f"P{i}": [1, 2, 4, 8, 16] for i in range(20)}, ["P0 > 1", constraint, "P3 > 2"])


def test_a_space_too_tight_for_chance_is_sampled_too() -> None:
    pairs = [f"P{i} == P{i + 10}" for i in range(10)]
    space = SearchSpace.of({f"P{i}": list(range(1, 9)) for i in range(20)}, pairs)
    assert space.encoded.members is None
    rows = space.encoded.sample(30, np.random.default_rng(1))
    assert len(rows) > 20 and all(space.encoded.config(row) in space for row in rows)


def test_many_values() -> None:
    space = SearchSpace.of({"A": list(range(40_000))})
    assert space.encoded.members is not None
    assert space.encoded.config(space.encoded.members[-1]) == {"A": 39_999}


def test_a_listed_space_has_its_members_and_no_others() -> None:
    configs = [Config({"B": 64, "S": "a"}), Config({"B": 16, "S": "b"}), Config({"B": 16, "S": "a"})]
    space = SearchSpace.listing(configs)
    assert list(space) == configs and space.size == 3
    assert Config({"B": 64, "S": "b"}) not in space
    assert {"B": 64, "S": "a"} in space
    assert space.parameters[0].values == (16, 64)
    assert space.sample(random.Random(1)) in configs
    neighbours = space.encoded.neighbours(space.encoded.rows([configs[2]])[0])
    assert {space.encoded.config(row) for row in neighbours} == {configs[0], configs[1]}
    with pytest.raises(SpaceError, match="same parameters"):
        SearchSpace.listing([Config({"A": 1}), Config({"B": 1})])
    with pytest.raises(SpaceError, match="at least one"):
        SearchSpace.listing([])
