from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernelwright.core import Config, Parameter, SearchSpace, SpaceError

values = st.lists(st.integers(1, 64), min_size=1, max_size=5, unique=True).map(sorted)


@st.composite
def spaces(draw: st.DrawFn) -> SearchSpace:
    first, second, third = draw(values), draw(values), draw(st.lists(st.sampled_from("abcd"), min_size=1, unique=True))
    # A constraint that at least one config satisfies.
    bound = draw(st.integers(min(first) * min(second), 64 * 64))
    return SearchSpace.of({"A": first, "B": second, "C": third}, [f"A * B <= {bound}"])


@given(spaces(), st.integers())
def test_samples_stay_in_the_space(space: SearchSpace, seed: int) -> None:
    assert space.sample(random.Random(seed)) in space


@given(spaces())
def test_iteration_is_the_whole_space_once(space: SearchSpace) -> None:
    members = list(space)
    assert len(members) == len(set(members)) == space.size <= space.cardinality
    assert all(member in space for member in members)
    assert space.default in space


@given(spaces())
def test_encoding_distinguishes_members(space: SearchSpace) -> None:
    codes = [tuple(p.encode(member[p.name]) for p in space.parameters) for member in space]
    assert len(set(codes)) == len(codes)
    assert all(math.isfinite(number) for code in codes for number in code)


def test_a_config_outside_is_not_a_member() -> None:
    space = SearchSpace.of({"A": [1, 2], "B": [1, 2]}, ["A >= B"])
    assert Config({"A": 1, "B": 2}) not in space
    assert Config({"A": 3, "B": 1}) not in space
    assert Config({"A": 1}) not in space


@pytest.mark.parametrize(
    ("parameters", "constraints", "says"),
    [
        ({"A": []}, [], "no values"),
        ({"A": [1, 1]}, [], "twice"),
        ({" ": [1]}, [], "no name"),
        ({"A": [1, math.inf]}, [], "not a finite number"),
        ({"A": [1]}, ["A > 1"], "no config satisfies"),
        ({"A": [1, 2], "B": [1, 2], "C": [1]}, ["A > 1", "C > 0", "B > A"], "'B > A' together with 'A > 1';"),
        ({"A": [1]}, ["1 > 2"], "no config satisfies '1 > 2'"),
        ({"A": [1]}, ["B > 1"], "uses B"),
        ({"A": [1]}, ["A >"], "not an expression"),
        ({"A": [1]}, ["__import__('os')"], "not allowed"),
        ({"A": [1]}, ["A.real > 0"], "not allowed"),
        ({"A": [1]}, ["9**9**9 > A"], "not allowed"),
        ({"A": [1]}, ["(lambda: 1)() == A"], "not allowed"),
    ],
)
def test_impossible_spaces_are_refused(parameters: dict[str, list[float]], constraints: list[str], says: str) -> None:
    with pytest.raises(SpaceError, match=says):
        SearchSpace.of(parameters, constraints)


def test_order_is_one_of_numbers() -> None:
    assert not Parameter("FLAGS", ["-O2", "-O3", "-Ofast"]).ordered
    assert Parameter("N", [8, 4, 2]).ordered


def test_division_by_zero_excludes_a_config() -> None:
    space = SearchSpace.of({"A": [0, 2]}, ["4 // A == 2"])
    assert list(space) == [Config({"A": 2})]


def test_constraints_may_name_the_problems_sizes() -> None:
    space = SearchSpace.of({"A": [1, 2, 4], "K": [1, 2]}, ["A <= M", "M % A == 0", "K > 1"], {"M": 6, "K": 1})
    assert list(space) == [Config({"A": 1, "K": 2}), Config({"A": 2, "K": 2})]
    assert Config({"A": 4, "K": 2}) not in space
    assert repr(space).endswith("sizes={'M': 6})"), "those that it uses; the parameter hides the size K"
    assert "sizes" not in repr(SearchSpace.of({"A": [1]}, ["A > 0"], {"M": 6}))
    with pytest.raises(SpaceError, match=r"'A <= X' uses X; the parameters are A, the problem's sizes M, batch_size"):
        SearchSpace.of({"A": [1]}, ["A <= X"], {"M": 6, "batch_size": 2})
    with pytest.raises(SpaceError, match="no config satisfies 'A > M'"):
        SearchSpace.of({"A": [1]}, ["A > M"], {"M": 6})
