"""Members of tight spaces are found in bounded time, or an error says that they were not."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernelwright.core import Config, SearchSpace, SpaceError
from kernelwright.core.constraint_search import ConstraintSearch

NAMES = ("A", "B", "C", "D")
FORMS = ["{a} + {n} <= {b}", "{a} % 3 != {b} % 3", "{a} != {b}", "{a} * {b} <= M * {n}", "{a} + {b} + {c} == {n} + 4",
         "{a} < M", "min({a}, {b}, {c}) <= {n}", "{a} == {b} or {c} > K", "{n} > 0"]  # fmt: skip
SIZES = {"M": 3, "K": 2, "A": 100}
"""A is a parameter, too, and hides the size."""


@st.composite
def constraints(draw: st.DrawFn) -> str:
    a, b, c = draw(st.permutations(NAMES))[:3]
    return draw(st.sampled_from(FORMS)).format(a=a, b=b, c=c, n=draw(st.integers(0, 5)))


domains = st.lists(st.integers(0, 6), min_size=1, max_size=5, unique=True)


@settings(deadline=None, max_examples=200)
@given(st.tuples(*[domains] * 4), st.lists(constraints(), max_size=5), st.integers(0, 9))
def test_membership_is_that_of_brute_force(choices: tuple[list[int], ...], chosen: list[str], seed: int) -> None:
    """Whether constraints name parameters or sizes: in order, drawn, as rows, and one by one."""
    values = dict(zip(NAMES, choices, strict=True))
    everything = [Config(zip(NAMES, point, strict=True)) for point in itertools.product(*choices)]
    wanted = [c for c in everything if all(eval(text, {}, {**SIZES, **c}) for text in chosen)]
    try:
        space = SearchSpace.of(values, chosen, SIZES)
    except SpaceError:
        space = None
    if space is None:
        assert not wanted
        return
    assert list(space) == wanted
    assert [config for config in everything if config in space] == wanted
    assert space.encoded.members is not None
    assert [space.encoded.config(row) for row in space.encoded.members] == wanted
    assert space.size == len(wanted) and space.default in wanted
    assert space.sample(random.Random(seed)) in wanted
    searched = ConstraintSearch(space.parameters, space.checks).find(random.Random(seed))
    assert searched is not None and Config(searched) in wanted


def schedule(seed: int, slack: int) -> list[str]:
    """46 constraints between nine operations in 27 slots: their order, and which of them share no unit."""
    rng = random.Random(seed)
    starts = sorted(rng.sample(range(27), 9))
    pairs = list(itertools.combinations(range(9), 2))
    rng.shuffle(pairs)
    after = [f"T{j} >= T{i} + {max(1, starts[j] - starts[i] - rng.randint(0, slack))}" for i, j in pairs[:23]]
    apart = [f"T{i} % 3 != T{j} % 3" for i, j in pairs if starts[i] % 3 != starts[j] % 3]
    return [*after, *apart, *(f"T{i} < T{j}" for i, j in pairs)][:46]


SLOTS = {f"T{i}": list(range(27)) for i in range(9)}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("slack", [2, 8])
def test_a_schedule_with_many_constraints_is_sampled_at_once(seed: int, slack: int) -> None:
    """7.6e12 combinations, of which chance meets none: such a space once hung."""
    began = time.process_time()
    space = SearchSpace.of(SLOTS, schedule(seed, slack))
    assert space.sample(random.Random(seed)) in space
    assert space.default in space
    rows = space.encoded.sample(50, np.random.default_rng(seed))
    assert len(rows) and all(space.encoded.config(row) in space for row in rows)
    assert time.process_time() - began < 5, "bounded; it takes a tenth of a second on an idle machine"


@pytest.mark.parametrize(
    "make",
    [
        lambda: SearchSpace.of(
            {f"P{i}": list(range(12)) for i in range(13)},
            [f"P{i} != P{j}" for i, j in itertools.combinations(range(13), 2)],
        ),
        lambda: SearchSpace.of({f"P{i}": list(range(1, 17)) for i in range(6)}, ["P0*P1*P2*P3*P4*P5 == 16777213"]),
    ],
)
def test_what_no_bounded_search_decides_is_an_error(make: Callable[[], SearchSpace]) -> None:
    with pytest.raises(SpaceError, match=r"no config was found in 30000 steps that satisfies .* over P0, P1.*loosen"):
        make()
