"""What every tuner must do; none of it takes a device."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence

import pytest

from ..core import Config, Evaluation, SearchSpace, Status, Tuner, encoded_space
from ..tuners.catalogue import TunerArguments, TunerEntry
from ..tuners.start import Warm

SPACE = SearchSpace.of({"A": [1, 2, 4, 8], "B": [1, 2, 4, 8], "C": ["x", "y"]}, ["A * B <= 32"], A=4)
MIXED = SearchSpace.of({"A": [1, 2, 3], "ONLY": [7], "MODE": ["", "row", "column"], "FLAG": [False, True]})
LARGE = SearchSpace.of({f"P{i}": [1, 2, 4, 8, 16] for i in range(20)}, ["P0 * P1 <= 64"])
LATE = 5
"""Configs that are asked for before the first result, as a driver with a window does."""


def member(a: int, b: int, c: str) -> Config:
    """Return a config of `SPACE`, or one outside of it."""
    return Config([("A", a), ("B", b), ("C", c)])


def timed(config: Config, latency_ms: float) -> Evaluation:
    """Return the evaluation of a config that works."""
    return Evaluation.recorded(config, latency_ms)


def failure(config: Config) -> Evaluation:
    """Return the evaluation of one that does not."""
    return Evaluation.recorded(config, None, status=Status.TIMEOUT, message="too slow")


def bowl(config: Config) -> float:
    """Return a time with one minimum."""
    off = abs(math.log2(float(config["A"])) - 1) + abs(math.log2(float(config["B"])) - 3)
    return 1.0 + off + (config["C"] == "y")


def answer(config: Config) -> Evaluation:
    """Evaluate a bowl with a cliff."""
    return failure(config) if config["A"] == 8 else timed(config, bowl(config))


def drive(
    tuner: Tuner,
    batch: int = 1,
    late: int = 0,
    answer: Callable[[Config], Evaluation] = answer,
    most: int = 1000,
) -> list[Config]:
    """Return all configs that a tuner asks for; each result comes when `late` others were asked for after it."""
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
    """Fail unless every member was asked for, once."""
    asked = list(asked)
    assert len(asked) == len(set(asked)), "a config is asked for twice"
    assert set(asked) == set(space), "not every member is asked for, or others are"


class TunerSuite:
    """What every tuner must do. Override `entry`."""

    @pytest.fixture
    def entry(self) -> TunerEntry:
        """Return what makes the tuner."""
        raise NotImplementedError("override the fixture `entry` in your class")

    @staticmethod
    def create(
        entry: TunerEntry, space: SearchSpace, seed: int = 0, warm: Warm = (), start: Sequence[Config] = ()
    ) -> Tuner:
        """Make a tuner as `create_tuner` does."""
        return entry.make(TunerArguments(space, seed, warm, start))

    @pytest.mark.parametrize(("batch", "late"), [(1, 0), (3, 0), (1, LATE), (3, 2 * LATE)])
    def test_asks_for_every_member_once_and_then_for_none(self, entry: TunerEntry, batch: int, late: int) -> None:
        tuner = self.create(entry, SPACE, 1)
        assert_each_once(drive(tuner, batch, late), SPACE)
        assert tuner.ask() == tuner.ask(batch) == []

    def test_asks_on_when_nothing_is_reported(self, entry: TunerEntry) -> None:
        assert_each_once(drive(self.create(entry, SPACE, 1), batch=3, late=1000), SPACE)

    def test_the_first_result_may_come_when_much_was_asked(self, entry: TunerEntry) -> None:
        tuner = self.create(entry, SPACE, 1)
        early = tuner.ask(20)
        tuner.tell(early[0], timed(early[0], 1.0))
        assert_each_once([*early, *drive(tuner)], SPACE)

    def test_is_deterministic_given_its_seed(self, entry: TunerEntry) -> None:
        first, second = (drive(self.create(entry, SPACE, 7), late=2) for _ in range(2))
        assert first == second

    def test_what_an_earlier_run_measured_is_not_asked_for(self, entry: TunerEntry) -> None:
        before = drive(self.create(entry, SPACE, 3), most=9)
        outside = member(99, 1, "x")
        renamed = Config({"A": 1, "Z": 1})
        tuner = self.create(entry, SPACE, 3)
        for config in [*before, outside, renamed, before[0]]:
            tuner.tell(config, timed(config, 2.0))
        after = drive(tuner)
        assert_each_once([*before, *after], SPACE)

    def test_configs_to_start_with_are_asked_for_once(self, entry: TunerEntry) -> None:
        start = [member(4, 4, "y"), member(99, 1, "x")]
        warm = [(member(2, 8, "x"), 1.0), (start[0], 2.0), (member(8, 1, "x"), None)]
        assert_each_once(drive(self.create(entry, SPACE, 0, warm, start)), SPACE)

    @pytest.mark.parametrize("late", [0, LATE])
    def test_failures_everywhere(self, entry: TunerEntry, late: int) -> None:
        assert_each_once(drive(self.create(entry, SPACE, 2), late=late, answer=failure), SPACE)

    @pytest.mark.parametrize("late", [0, LATE])
    def test_one_success_among_failures(self, entry: TunerEntry, late: int) -> None:
        right = member(2, 2, "y")

        def one(config: Config) -> Evaluation:
            return timed(config, 1.0) if config == right else failure(config)

        assert_each_once(drive(self.create(entry, SPACE, 2), late=late, answer=one), SPACE)

    @pytest.mark.parametrize("alike", [1.0, 0.6], ids=["all", "most"])
    def test_equal_times(self, entry: TunerEntry, alike: float) -> None:
        """Timers have a resolution, and parameters without effect give the same code."""
        order = {config: i for i, config in enumerate(SPACE)}

        def flat(config: Config) -> Evaluation:
            return timed(config, 1.0 if order[config] % 10 < 10 * alike else 2.0)

        assert_each_once(drive(self.create(entry, SPACE, 2), answer=flat), SPACE)

    def test_times_far_apart(self, entry: TunerEntry) -> None:
        def steep(config: Config) -> Evaluation:
            return timed(config, 10.0 ** (4 * bowl(config) - 12))

        assert_each_once(drive(self.create(entry, SPACE, 2), answer=steep), SPACE)

    def test_a_space_of_one(self, entry: TunerEntry) -> None:
        space = SearchSpace.of({"A": [1], "B": [1], "C": ["x"]})
        assert drive(self.create(entry, space)) == [member(1, 1, "x")]

    def test_texts_truth_values_and_parameters_with_one_value(self, entry: TunerEntry) -> None:
        def time(config: Config) -> Evaluation:
            assert isinstance(config["FLAG"], bool)
            return timed(config, 1.0 + config["FLAG"] + len(str(config["MODE"])))

        assert_each_once(drive(self.create(entry, MIXED, 4), batch=2, answer=time), MIXED)

    def test_a_list_of_configs_as_space(self, entry: TunerEntry) -> None:
        space = SearchSpace.listing([*SPACE][::3])
        assert_each_once(drive(self.create(entry, space, 4)), space)

    def test_a_space_too_large_to_list(self, entry: TunerEntry) -> None:
        assert LARGE.encoded.members is None

        def time(config: Config) -> Evaluation:
            return timed(config, 1.0 + sum(map(float, config.values())))

        asked = drive(self.create(entry, LARGE, 1), late=3, answer=time, most=40)
        assert len(asked) == len(set(asked)) == 40
        assert all(config in LARGE for config in asked)

    @pytest.mark.parametrize(("batch", "late"), [(1, 0), (3, LATE)])
    def test_a_sampled_space_is_exhausted_too(
        self, entry: TunerEntry, batch: int, late: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(encoded_space, "ENUMERATED", 5)
        space = SearchSpace(SPACE.parameters, SPACE.constraints)
        assert space.encoded.members is None
        tuner = self.create(entry, space, 1)
        assert_each_once(drive(tuner, batch, late), space)
        assert tuner.ask() == []


class SeededTunerSuite(TunerSuite):
    """What a tuner must do besides whose order is chance."""

    def test_other_seeds_choose_otherwise(self, entry: TunerEntry) -> None:
        assert len({tuple(drive(self.create(entry, SPACE, seed), most=8)) for seed in range(4)}) > 1


class AdaptiveTunerSuite(SeededTunerSuite):
    """What a tuner must do besides that learns from results (`TunerEntry.adaptive`)."""

    def test_what_is_known_to_be_fast_comes_first(self, entry: TunerEntry) -> None:
        """The given config first, then the fastest elsewhere."""
        start, elsewhere = member(4, 4, "y"), member(2, 8, "x")
        warm = [(elsewhere, 1.0), (start, 2.0), (member(8, 1, "x"), None)]
        assert drive(self.create(entry, SPACE, 0, warm, [start]), most=2) == [start, elsewhere]

    def test_beats_chance_on_a_bowl(self, entry: TunerEntry) -> None:
        """Random search needs (n + 1) / 2 trials on average for the single best of n; a tuner must need a fifth fewer.

        Of the built-in ones none needs more than two thirds.
        """
        assert entry.adaptive
        best = min(SPACE, key=lambda config: bowl(config) if config["A"] != 8 else math.inf)

        def trials(seed: int) -> int:
            """Return the number of the trial that finds it."""
            tuner = self.create(entry, SPACE, seed)
            for number in itertools.count(1):
                (config,) = tuner.ask(1)
                if config == best:
                    return number
                tuner.tell(config, answer(config))
            raise AssertionError

        needed = [trials(seed) for seed in range(10)]
        assert sum(needed) / len(needed) < 0.8 * (SPACE.size + 1) / 2
