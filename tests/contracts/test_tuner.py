"""What every tuner promises; each new one joins TUNERS."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from kernelwright.core import Config, Evaluation, SearchSpace, Status, Tuner
from kernelwright.tuners import HillClimb

from ..agent.test_loop import evaluation, kernel

TUNERS: dict[str, Callable[[SearchSpace, int], Tuner]] = {
    "hill_climb": lambda space, seed: HillClimb(space, seed=seed),
}
SPACE = SearchSpace.of({"A": [1, 2, 4, 8], "B": [1, 2, 4, 8], "C": ["x", "y"]}, ["A * B <= 32"], A=4)
KERNEL = kernel(1.0)

tuners = pytest.mark.parametrize("make", TUNERS.values(), ids=TUNERS)


def cost(config: Config) -> float:
    bowl = abs(math.log2(float(config["A"])) - 1) + abs(math.log2(float(config["B"])) - 3)
    return 1.0 + bowl + (config["C"] == "y")


def answer(config: Config) -> Evaluation:
    if config["A"] == 8:
        return Evaluation(status=Status.TIMEOUT, kernel_digest="d", config=dict(config), message="too slow")
    return evaluation(KERNEL, config, cost(config))


def drive(tuner: Tuner, batch: int = 1) -> list[Config]:
    asked: list[Config] = []
    while configs := tuner.ask(batch):
        assert len(configs) <= batch
        for config in configs:
            asked.append(config)
            tuner.tell(config, answer(config))
    return asked


@tuners
@pytest.mark.parametrize("batch", [1, 3])
def test_asks_for_every_member_once_and_then_for_none(make: Callable[[SearchSpace, int], Tuner], batch: int) -> None:
    asked = drive(make(SPACE, 1), batch)
    assert len(asked) == len(set(asked)) == SPACE.size
    assert all(config in SPACE for config in asked)


@tuners
def test_is_deterministic_given_its_seed(make: Callable[[SearchSpace, int], Tuner]) -> None:
    assert drive(make(SPACE, 7)) == drive(make(SPACE, 7))


@tuners
def test_beats_chance_on_a_bowl(make: Callable[[SearchSpace, int], Tuner]) -> None:
    """Random search needs (n + 1) / 2 trials on average for the single best of n."""
    best = min(SPACE, key=lambda config: cost(config) if config["A"] != 8 else math.inf)
    needed = [drive(make(SPACE, seed)).index(best) + 1 for seed in range(20)]
    assert sum(needed) / len(needed) < (SPACE.size + 1) / 2


@tuners
def test_a_space_of_one(make: Callable[[SearchSpace, int], Tuner]) -> None:
    assert drive(make(SearchSpace.of({"A": [1], "B": [1], "C": ["x"]}), 0)) == [Config({"A": 1, "B": 1, "C": "x"})]
