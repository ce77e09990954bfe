"""Searches side by side: each config measured once, equal budgets, and a journal that recalls them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

from kernelwright.core import Config, Evaluation, Journal, Trial, Tuner

from ..fakes import PROBLEM
from ..tuners.searching import KERNEL, Clock, Table, configs

_spec = importlib.util.spec_from_file_location("side_by_side", Path(__file__).parents[2] / "benchmarks/side_by_side.py")
assert _spec and _spec.loader
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
SideBySide = _module.SideBySide


class Listed:
    """Asks for these, in order."""

    def __init__(self, *values: int) -> None:
        self.left = configs(*values)
        self.told: list[tuple[Config, Evaluation]] = []

    def ask(self, n: int = 1) -> list[Config]:
        asked, self.left = self.left[:n], self.left[n:]
        return asked

    def tell(self, config: Config, evaluation: Evaluation) -> None:
        self.told.append((config, evaluation))
        self.left = [left for left in self.left if left != config]

    @property
    def values(self) -> list[int]:
        return [int(config["A"]) for config, _ in self.told]


def run(
    path: Path,
    table: Table,
    trials: int = 9,
    until: float | None = None,
    key: Callable[[Config], object] = lambda config: config,
    **tuners: Tuner,
) -> SideBySide:
    with Journal(path) as journal:
        searches = SideBySide(tuners, trials, journal, lambda *_: None, key, Clock())  # type: ignore[arg-type]
        searches.run(table, PROBLEM, KERNEL, until)
        return searches


def test_a_config_is_measured_once_and_is_a_trial_of_each_that_asked(tmp_path: Path) -> None:
    table, listed, two = Table(), Listed(1, 2, 9, 3), Listed(2, 1, 4, 9)
    searches = run(tmp_path / "journal.jsonl", table, one=listed, two=two)
    assert sorted(int(config["A"]) for config in table.measured) == [1, 2, 3, 4, 9]
    assert sorted(listed.values) == [1, 2, 3, 9] and sorted(two.values) == [1, 2, 4, 9]
    assert searches.measured == 5
    for tuner in (listed, two):
        assert all(evaluation.config == dict(config) for config, evaluation in tuner.told)
    results = {int(config["A"]): evaluation for config, evaluation in two.told}
    assert results[9].latency_ms is None and results[4].latency_ms == 3.0


def test_the_searches_take_turns_and_have_equal_budgets(tmp_path: Path) -> None:
    table, listed, two = Table(window=1), Listed(1, 2, 3, 4), Listed(5, 6, 7, 8)
    searches = run(tmp_path / "journal.jsonl", table, trials=3, one=listed, two=two)
    assert [int(config["A"]) for config in table.measured] == [1, 5, 2, 6, 3, 7]
    assert {name: len(trials) for name, trials in searches.trials.items()} == {"one": 3, "two": 3}


def test_a_time_limit_ends_all(tmp_path: Path) -> None:
    table = Table(window=1)
    searches = run(tmp_path / "journal.jsonl", table, until=5.0, one=Listed(1, 2, 3), two=Listed(4, 5, 6))
    assert {name: len(trials) for name, trials in searches.trials.items()} == {"one": 2, "two": 2}
    assert table.closed


def test_configs_of_one_key_are_one_measurement(tmp_path: Path) -> None:
    table, listed, two = Table(), Listed(1, 2), Listed(3, 4)
    run(tmp_path / "journal.jsonl", table, key=lambda config: int(config["A"]) % 2, one=listed, two=two)
    assert len(table.measured) == 2
    ((config, evaluation), *_) = two.told
    assert evaluation.config == dict(config) and evaluation.duplicate_of in ({"A": 1}, {"A": 2})
    assert evaluation.latency_ms == next(e.latency_ms for _, e in listed.told if e.config == evaluation.duplicate_of)


def test_it_goes_on_from_its_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    run(path, Table(), trials=2, one=Listed(1, 2, 3), two=Listed(2, 5, 3))
    table, listed, two = Table(), Listed(1, 2, 3), Listed(2, 5, 3)
    searches = run(path, table, one=listed, two=two)
    assert listed.values == [1, 2, 3] and two.values == [2, 5, 3]
    assert [int(config["A"]) for config in table.measured] == [3]
    assert sorted(int(evaluation.config["A"]) for evaluation in table.known) == [1, 2, 5]
    assert {name: len(trials) for name, trials in searches.trials.items()} == {"one": 3, "two": 3}
    with Journal(path) as journal:
        origins = [trial.origin for trial in journal.of(Trial)]
    assert sorted(origins) == ["one"] * 3 + ["two"] * 3
