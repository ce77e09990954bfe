"""When simulated annealing moves, and where it begins."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from kernelwright.core import Config, SearchSpace
from kernelwright.tuners.annealing import COLD, COOLING, HOT, MILD, Annealing

from ..fakes import evaluation, kernel

SPACE = SearchSpace.of({"A": list(range(10)), "B": list(range(10))})
START = Config({"A": 5, "B": 5})
KERNEL = kernel(1.0)


def tell(tuner: Annealing, config: Config, result: float | str) -> None:
    tuner.tell(config, evaluation(KERNEL, config, result))


def begun(seed: int, space: SearchSpace = SPACE) -> Annealing:
    """A walk that stands on the start, which takes 1 ms."""
    tuner = Annealing(space, seed, [START])
    assert tuner.ask() == [START]
    tell(tuner, START, 1.0)
    return tuner


def place(tuner: Annealing) -> Config:
    assert tuner._here is not None
    return SPACE.encoded.config(tuner._here)


def moves(temperature: float, result: float | str, count: int = 300) -> float:
    """The share of walks that leave the start for a neighbour of this time."""
    moved = 0
    for seed in range(count):
        tuner = begun(seed)
        tuner._temperature = temperature
        (there,) = tuner.ask()
        tell(tuner, there, result)
        moved += place(tuner) == there
    return moved / count


@pytest.mark.parametrize("temperature", [HOT, COLD])
@pytest.mark.parametrize(("result", "share"), [(0.99, 1.0), (1.0, 1.0), ("timeout", 0.0)])
def test_better_is_always_accepted_and_failure_never(temperature: float, result: float | str, share: float) -> None:
    assert moves(temperature, result, 20) == share


@pytest.mark.parametrize(("temperature", "slower"), [(HOT, 1.3), (HOT, 2.0), (COLD, 1.01), (COLD, 1.3)])
def test_slower_is_accepted_as_boltzmann_says(temperature: float, slower: float) -> None:
    assert moves(temperature, slower) == pytest.approx(slower ** (-1 / temperature), abs=0.08)


@pytest.mark.parametrize(("start", "first"), [((), HOT), ([START], MILD)], ids=["hot", "mild"])
def test_cools_with_every_time_and_heats_up_again(start: Sequence[Config], first: float) -> None:
    """A given start is a good place as a rule, and is not left at once for any other."""
    tuner = Annealing(SPACE, 0, start)
    temperatures = [tuner._temperature]
    for _ in range(200):
        tell(tuner, START, 1.0)
        temperatures.append(tuner._temperature)
    steps = math.ceil(math.log(COLD / first, COOLING))
    assert temperatures[:steps] == pytest.approx([first * COOLING**step for step in range(steps)])
    assert temperatures[steps] == HOT
    assert min(temperatures) >= COLD


def test_a_step_changes_one_parameter_to_any_value() -> None:
    asked = {begun(seed).ask()[0] for seed in range(200)}
    assert all((config["A"] == 5) != (config["B"] == 5) for config in asked)
    assert len(asked) == 18


def test_when_all_around_is_known_it_goes_anywhere() -> None:
    tuner = begun(1)
    tuner._temperature = 1e-9
    for config in tuner.ask(18):
        tell(tuner, config, 9.0)
    assert place(tuner) == START
    (there,) = tuner.ask()
    assert there["A"] != 5 and there["B"] != 5
    tell(tuner, there, 9.0)
    assert place(tuner) == there


def test_starts_in_their_order_once_and_within_the_space() -> None:
    other = Config({"A": 1, "B": 2})
    tuner = Annealing(SPACE, 0, [START, Config({"A": 77, "B": 0}), other, START])
    assert tuner.ask(2) == [START, other]
    tell(tuner, other, 1.0)
    (third,) = tuner.ask()
    assert (third["A"] == 1) != (third["B"] == 2)


def test_what_an_earlier_run_measured_is_no_start() -> None:
    tuner = Annealing(SPACE, 0, [START])
    tell(tuner, START, 1.0)
    assert tuner.ask() != [START]
