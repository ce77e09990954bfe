"""What every tuner of the catalogue promises."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable

import pytest
from kernelwright.core import Config, Evaluation, SearchSpace, Status, Tuner, encoded_space
from kernelwright.tuners import catalogue, cost_model, portfolio

from ..fakes import evaluation, kernel

SPACE = SearchSpace.of({"A": [1, 2, 4, 8], "B": [1, 2, 4, 8], "C": ["x", "y"]}, ["A * B <= 32"], A=4)
MIXED = SearchSpace.of({"A": [1, 2, 3], "ONLY": [7], "MODE": ["", "row", "column"], "FLAG": [False, True]})
LARGE = SearchSpace.of({f"P{i}": [1, 2, 4, 8, 16] for i in range(20)}, ["P0 * P1 <= 64"])
KERNEL = kernel(1.0)
LATE = 5
"""Configs that are asked for before the first result, as a driver with a window does."""

every = pytest.mark.parametrize("name", catalogue.names())
seeded = pytest.mark.parametrize("name", [name for name in catalogue.names() if name != "grid"])
learning = pytest.mark.parametrize("name", [name for name in catalogue.names() if catalogue.adaptive(name)])


@pytest.fixture(autouse=True)
def _small_models(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a tuner promises does not depend on how well its models predict, but for what it finds."""
    if request.function is not test_beats_chance_on_a_bowl:
        monkeypatch.setattr(cost_model, "ROUNDS", 6)
        monkeypatch.setattr(cost_model, "MEMBERS", 2)
        monkeypatch.setattr(portfolio, "CANDIDATES", 200)


def bowl(config: Config) -> float:
    off = abs(math.log2(float(config["A"])) - 1) + abs(math.log2(float(config["B"])) - 3)
    return 1.0 + off + (config["C"] == "y")


def failure(config: Config) -> Evaluation:
    return Evaluation(status=Status.TIMEOUT, kernel_digest="d", config=dict(config), message="too slow")


def answer(config: Config) -> Evaluation:
    """A bowl with a cliff."""
    return failure(config) if config["A"] == 8 else evaluation(KERNEL, config, bowl(config))


def drive(
    tuner: Tuner,
    batch: int = 1,
    late: int = 0,
    answer: Callable[[Config], Evaluation] = answer,
    most: int = 1000,
) -> list[Config]:
    """All configs that a tuner asks for; each result comes when `late` others were asked for after it."""
    asked: list[Config] = []
    waiting: deque[Config] = deque()
    while len(asked) < most and (configs := tuner.ask(batch)):
        assert len(configs) <= batch
        asked += configs
        waiting.extend(configs)
        while len(waiting) > late:
            config = waiting.popleft()
            tuner.tell(config, answer(config))
    for config in waiting:
        tuner.tell(config, answer(config))
    return asked


def assert_each_once(asked: Iterable[Config], space: SearchSpace) -> None:
    asked = list(asked)
    assert len(asked) == len(set(asked))
    assert set(asked) == set(space)


@every
@pytest.mark.parametrize(("batch", "late"), [(1, 0), (3, 0), (1, LATE), (3, 2 * LATE)])
def test_asks_for_every_member_once_and_then_for_none(name: str, batch: int, late: int) -> None:
    tuner = catalogue.create(name, SPACE, 1)
    assert_each_once(drive(tuner, batch, late), SPACE)
    assert tuner.ask() == tuner.ask(batch) == []


@every
def test_asks_on_when_nothing_is_reported(name: str) -> None:
    assert_each_once(drive(catalogue.create(name, SPACE, 1), batch=3, late=1000), SPACE)


@every
def test_the_first_result_may_come_when_much_was_asked(name: str) -> None:
    tuner = catalogue.create(name, SPACE, 1)
    early = tuner.ask(20)
    tuner.tell(early[0], evaluation(KERNEL, early[0], 1.0))
    assert_each_once([*early, *drive(tuner)], SPACE)


@every
def test_is_deterministic_given_its_seed(name: str) -> None:
    first, second = (drive(catalogue.create(name, SPACE, 7), late=2) for _ in range(2))
    assert first == second


@seeded
def test_other_seeds_choose_otherwise(name: str) -> None:
    assert len({tuple(drive(catalogue.create(name, SPACE, seed), most=8)) for seed in range(4)}) > 1


@every
def test_what_an_earlier_run_measured_is_not_asked_for(name: str) -> None:
    before = drive(catalogue.create(name, SPACE, 3), most=9)
    outside = Config({"A": 99, "B": 1, "C": "x"})
    renamed = Config({"A": 1, "Z": 1})
    tuner = catalogue.create(name, SPACE, 3)
    for config in [*before, outside, renamed, before[0]]:
        tuner.tell(config, evaluation(KERNEL, config, 2.0))
    after = drive(tuner)
    assert_each_once([*before, *after], SPACE)


@every
def test_configs_to_start_with_are_asked_for_once(name: str) -> None:
    start = [Config({"A": 4, "B": 4, "C": "y"}), Config({"A": 99, "B": 1, "C": "x"})]
    warm = [(Config({"A": 2, "B": 8, "C": "x"}), 1.0), (start[0], 2.0), (Config({"A": 8, "B": 1, "C": "x"}), None)]
    tuner = catalogue.create(name, SPACE, 0, warm, start)
    asked = drive(tuner)
    assert_each_once(asked, SPACE)
    if catalogue.adaptive(name):
        # The given ones first, then the fastest elsewhere.
        assert asked[:2] == [start[0], warm[0][0]]


@every
@pytest.mark.parametrize("late", [0, LATE])
def test_failures_everywhere(name: str, late: int) -> None:
    assert_each_once(drive(catalogue.create(name, SPACE, 2), late=late, answer=failure), SPACE)


@every
@pytest.mark.parametrize("late", [0, LATE])
def test_one_success_among_failures(name: str, late: int) -> None:
    right = Config({"A": 2, "B": 2, "C": "y"})

    def one(config: Config) -> Evaluation:
        return evaluation(KERNEL, config, 1.0) if config == right else failure(config)

    assert_each_once(drive(catalogue.create(name, SPACE, 2), late=late, answer=one), SPACE)


@every
@pytest.mark.parametrize("alike", [1.0, 0.6], ids=["all", "most"])
def test_equal_times(name: str, alike: float) -> None:
    """Timers have a resolution, and parameters without effect give the same code."""
    order = {config: i for i, config in enumerate(SPACE)}

    def flat(config: Config) -> Evaluation:
        return evaluation(KERNEL, config, 1.0 if order[config] % 10 < 10 * alike else 2.0)

    assert_each_once(drive(catalogue.create(name, SPACE, 2), answer=flat), SPACE)


@every
def test_times_far_apart(name: str) -> None:
    def steep(config: Config) -> Evaluation:
        return evaluation(KERNEL, config, 10.0 ** (4 * bowl(config) - 12))

    assert_each_once(drive(catalogue.create(name, SPACE, 2), answer=steep), SPACE)


@every
def test_a_space_of_one(name: str) -> None:
    space = SearchSpace.of({"A": [1], "B": [1], "C": ["x"]})
    assert drive(catalogue.create(name, space)) == [Config({"A": 1, "B": 1, "C": "x"})]


@every
def test_texts_truth_values_and_parameters_with_one_value(name: str) -> None:
    def time(config: Config) -> Evaluation:
        assert isinstance(config["FLAG"], bool)
        return evaluation(KERNEL, config, 1.0 + config["FLAG"] + len(str(config["MODE"])))

    assert_each_once(drive(catalogue.create(name, MIXED, 4), batch=2, answer=time), MIXED)


@every
def test_a_list_of_configs_as_space(name: str) -> None:
    space = SearchSpace.listing([*SPACE][::3])
    assert_each_once(drive(catalogue.create(name, space, 4)), space)


@every
def test_a_space_too_large_to_list(name: str) -> None:
    assert LARGE.encoded.members is None

    def time(config: Config) -> Evaluation:
        return evaluation(KERNEL, config, 1.0 + sum(map(float, config.values())))

    asked = drive(catalogue.create(name, LARGE, 1), late=3, answer=time, most=40)
    assert len(asked) == len(set(asked)) == 40
    assert all(config in LARGE for config in asked)


@every
@pytest.mark.parametrize(("batch", "late"), [(1, 0), (3, LATE)])
def test_a_sampled_space_is_exhausted_too(name: str, batch: int, late: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoded_space, "ENUMERATED", 5)
    space = SearchSpace(SPACE.parameters, SPACE.constraints)
    assert space.encoded.members is None
    tuner = catalogue.create(name, space, 1)
    assert_each_once(drive(tuner, batch, late), space)
    assert tuner.ask() == []


@learning
def test_beats_chance_on_a_bowl(name: str) -> None:
    """Random search needs (n + 1) / 2 trials on average for the single best of n."""
    best = min(SPACE, key=lambda config: bowl(config) if config["A"] != 8 else math.inf)

    def trials(seed: int) -> int:
        """The number of the trial that finds it."""
        tuner = catalogue.create(name, SPACE, seed)
        for number in itertools.count(1):
            (config,) = tuner.ask(1)
            if config == best:
                return number
            tuner.tell(config, answer(config))
        raise AssertionError

    needed = [trials(seed) for seed in range(10)]
    assert sum(needed) / len(needed) < (SPACE.size + 1) / 2
