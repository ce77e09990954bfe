"""A search for several configs at once, one for each set of workloads."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from kernelwright.core import Config, Evaluation, SearchSpace, Status, Tuner
from kernelwright.core.workload_rows import merged
from kernelwright.testing.tuner import drive
from kernelwright.tuners import catalogue
from kernelwright.tuners.grid import Grid
from kernelwright.tuners.per_workload import TunerPerWorkload, per_workload

from ..core.test_workload_rows import timed

SPACE = SearchSpace.of({"M": [16, 32, 64, 128], "N": [16, 32, 64, 128], "STAGES": [1, 2, 3, 4]})
SMALL, LARGE = Config({"M": 16, "N": 64, "STAGES": 4}), Config({"M": 128, "N": 128, "STAGES": 2})


def away(config: Config, best: Config) -> float:
    return 2.0 ** sum(config[name] != value for name, value in best.items())


def measured(config: Config) -> Evaluation:
    """Small tiles are fast for few rows and slow for many; what serves both is the best at neither."""
    found = merged({"few": timed(away(config, SMALL)), "many": timed(100 * away(config, LARGE))})
    return found.model_copy(update={"config": dict(config)})


class Noting(Grid):
    """Remembers the times that it is told."""

    def __init__(self) -> None:
        super().__init__(SPACE, 1)
        self.told: list[float | None] = []

    def tell(self, config: Config, evaluation: Evaluation) -> None:
        self.told.append(evaluation.latency_ms)


def apart(name: str) -> Tuner:
    return per_workload(lambda names: catalogue.create_tuner(name, SPACE), [["few"], ["many"]])


@pytest.mark.parametrize("name", ["portfolio", "hill_climb"])
def test_the_best_of_each_workload_is_found_in_half_of_the_space(name: str) -> None:
    tuner, asked = apart(name), []
    for _ in range(SPACE.cardinality // 2):
        (config,) = tuner.ask()
        tuner.tell(config, measured(config))
        asked.append(config)
    assert {SMALL, LARGE} <= set(asked)
    assert len(set(asked)) == len(asked)


@pytest.mark.parametrize("name", [name for name in catalogue.names() if catalogue.adaptive(name)])
@pytest.mark.parametrize("late", [0, 5])
def test_each_config_is_asked_for_once_however_late_its_result_is(name: str, late: int) -> None:
    asked = drive(apart(name), late=late, answer=measured)
    assert len(asked) == SPACE.cardinality == len(set(asked))


@pytest.mark.parametrize("sets", [[], [["few", "many"]]])
def test_without_several_sets_it_is_an_ordinary_tuner(sets: list[list[str]]) -> None:
    assert isinstance(per_workload(lambda names: Grid(SPACE, 1), sets), Grid)


def test_a_tuner_is_made_for_its_workloads() -> None:
    made: list[list[str]] = []

    def make(names: Sequence[str]) -> Tuner:
        made.append(list(names))
        return Grid(SPACE, 1)

    per_workload(make, [["few"], ["many", "most"]])
    per_workload(make, [["few", "many"]])
    assert made == [["few"], ["many", "most"], []]


def test_a_time_that_is_not_known_at_a_workload_is_none() -> None:
    few, many = Noting(), Noting()
    TunerPerWorkload([(few, ["few"]), (many, ["many"])]).tell(SMALL, timed(1.0))
    assert few.told == many.told == [None]


def test_all_of_the_space_is_asked_for_once_and_then_nothing() -> None:
    tuner = TunerPerWorkload([(Grid(SPACE, 1), ["few"]), (Grid(SPACE, 1), ["many"])])
    asked = [*tuner.ask(3), *tuner.ask(1000)]
    assert len(asked) == SPACE.cardinality == len(set(asked))
    assert tuner.ask(2) == []


def test_results_of_an_earlier_run_are_not_asked_for_again() -> None:
    tuner, known = apart("portfolio"), list(SPACE)[:30]
    for config in known:
        tuner.tell(config, measured(config))
    assert not set(tuner.ask(20)) & set(known)


def test_a_failure_counts_at_every_workload() -> None:
    few, many = Noting(), Noting()
    tuner = TunerPerWorkload([(few, ["few"]), (many, ["many"])])
    (config,) = tuner.ask()
    failed = Evaluation(status=Status.TIMEOUT, kernel_digest="d", config=dict(config), message="too slow")
    tuner.tell(config, failed)
    tuner.tell(config, measured(config))
    assert few.told == [None, pytest.approx(away(config, SMALL))]
    assert many.told == [None, pytest.approx(100 * away(config, LARGE))]
