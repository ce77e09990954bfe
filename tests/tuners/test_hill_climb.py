"""Where hill climbing goes, step by step."""

from __future__ import annotations

import pytest
from kernelwright.core import Config, SearchSpace
from kernelwright.tuners.hill_climb import HillClimb

from ..fakes import evaluation, kernel

SPACE = SearchSpace.of({"A": list(range(10)), "B": list(range(10))})
KERNEL = kernel(1.0)


def config(a: int, b: int) -> Config:
    return Config({"A": a, "B": b})


def tell(tuner: HillClimb, config: Config, result: float | str) -> None:
    tuner.tell(config, evaluation(KERNEL, config, result))


def climbing(seed: int = 0) -> HillClimb:
    """A climb that stands on (5, 5), which takes 1 ms."""
    tuner = HillClimb(SPACE, seed, [config(5, 5)])
    assert tuner.ask() == [config(5, 5)]
    tell(tuner, config(5, 5), 1.0)
    return tuner


def steps(config: Config, a: int, b: int) -> int:
    return abs(int(config["A"]) - a) + abs(int(config["B"]) - b)


@pytest.mark.parametrize("seed", range(5))
def test_nearest_values_first(seed: int) -> None:
    asked = climbing(seed).ask(18)
    assert all(config["A"] == 5 or config["B"] == 5 for config in asked)
    assert [steps(config, 5, 5) for config in asked] == sorted([1, 2, 3, 4] * 4 + [5, 5])


def test_equally_near_ones_in_random_order() -> None:
    assert len({climbing(seed).ask()[0] for seed in range(20)}) == 4


def test_values_without_order_are_all_one_step_away() -> None:
    space = SearchSpace.of({"MODE": ["p", "q", "r", "s"], "A": [1, 2, 3, 4]})
    firsts = set()
    for seed in range(20):
        tuner = HillClimb(space, seed, [Config({"MODE": "p", "A": 1})])
        (start,) = tuner.ask()
        tell(tuner, start, 1.0)
        asked = tuner.ask(6)
        assert {config["A"] for config in asked[:4]} == {1, 2}
        firsts.add(asked[0]["MODE"])
    assert firsts == {"p", "q", "r", "s"}


def test_climbs_from_a_better_neighbour_at_once() -> None:
    tuner = climbing()
    (better,) = tuner.ask()
    tell(tuner, better, 0.9)
    a, b = int(better["A"]), int(better["B"])
    assert all(steps(config, a, b) == 1 for config in tuner.ask(3))


@pytest.mark.parametrize("result", [1.1, 1.0, "timeout"])
def test_stays_where_a_neighbour_is_no_better(result: float | str) -> None:
    tuner = climbing()
    tell(tuner, tuner.ask()[0], result)
    assert [steps(config, 5, 5) for config in tuner.ask(7)] == [1, 1, 1, 2, 2, 2, 2]


def test_a_summit_stands_until_all_verdicts_are_in() -> None:
    """Otherwise any late verdict, however bad, would begin another hill."""
    tuner = climbing()
    around = tuner.ask(18)
    tuner.ask(2)
    worse = around[0]
    tell(tuner, worse, 1.5)
    fixed = "A" if worse["A"] != 5 else "B"
    assert not all(config[fixed] == worse[fixed] for config in tuner.ask(4))


def test_another_hill_when_all_around_is_worse() -> None:
    tuner = climbing()
    for config in tuner.ask(18):
        tell(tuner, config, 2.0)
    (foot,) = tuner.ask()
    tell(tuner, foot, 3.0)
    a, b = int(foot["A"]), int(foot["B"])
    assert all(config["A"] == a or config["B"] == b for config in tuner.ask(5))


def test_starts_in_their_order_once_and_within_the_space() -> None:
    tuner = HillClimb(SPACE, 0, [config(1, 1), config(50, 0), config(2, 2), config(1, 1)])
    first = tuner.ask(3)
    assert first[:2] == [config(1, 1), config(2, 2)]
    assert first[2] not in first[:2]
