"""A search that goes on where an earlier one stopped: nothing is measured twice, nothing torn is used."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from kernelwright.core import Budget, Config, Journal, JournalError, Trial
from kernelwright.tuners import catalogue

from ..fakes import evaluation
from .searching import ANOTHER, KERNEL, SPACE, Answer, Clock, Table, Watcher, configs, search, times, trials_in


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def test_a_resumed_search_goes_on_and_measures_nothing_twice(path: Path) -> None:
    first = Table()
    earlier = search(path, first, budget=Budget(trials=4))
    assert first.known == []
    table, watcher = Table(), Watcher()
    found = search(path, table, budget=Budget(trials=7), watcher=watcher)
    assert table.measured == configs(5, 6, 7)
    assert table.known == list(earlier.evaluations)
    assert found.progress.recalled == 4
    assert found.progress.trials == 7
    assert watcher.trials == [(a, a) for a in range(1, 8)]
    assert [Config(e.config) for e in found.evaluations] == list(SPACE)[:7]
    assert found.best is not None and found.best.config == {"A": 6}


def test_a_budget_that_is_used_up_measures_nothing_more(path: Path) -> None:
    first = search(path, Table(), budget=Budget(trials=4))
    table = Table()
    again = search(path, table, budget=Budget(trials=4))
    assert table.drawn == []
    assert table.compared == []
    assert again.best == first.best
    assert again.finals == first.finals


def test_seconds_of_an_earlier_run_are_spent(path: Path) -> None:
    """Those of its trials: what finalists take is in no budget."""
    clock = Clock()

    def slow(config: Config) -> Answer:
        clock.now += 100.0
        return times(config)

    table = Table(slow)
    search(path, table, budget=Budget(trials=3), clock=clock)
    clock.now += 1e6
    found = search(path, table, budget=Budget(seconds=450), clock=clock)
    assert table.measured == list(SPACE)[:5]
    assert found.stopped == "budget of 450 seconds used up"
    assert 500 <= found.progress.seconds < 600
    again = search(path, table, budget=Budget(seconds=450), clock=clock)
    assert table.measured == list(SPACE)[:5]
    assert again.stopped == found.stopped
    assert 500 <= again.progress.seconds < 600


def test_finals_of_a_shorter_search_do_not_count(path: Path) -> None:
    """Each comparison stands by itself: clocks and load were others in the one before."""
    search(path, Table(times, lambda config: 0.01), budget=Budget(trials=6))
    table = Table(lambda config: times(config) if config["A"] != 7 else 1.05)
    second = search(path, table, budget=Budget(trials=8))
    assert table.compared == [[Config(), *configs(6, 7)]]
    third_table = Table()
    third = search(path, third_table, budget=Budget(trials=8))
    assert third_table.compared == []
    assert third.finals == second.finals
    assert third.best is not None and third.best.latency_ms == 1.0


def test_finals_that_were_cut_off_are_held_again(path: Path) -> None:
    first = search(path, Table())
    whole = path.read_text().splitlines(keepends=True)
    path.write_text("".join(whole[:-1]))
    table = Table()
    assert search(path, table).finals == first.finals
    assert table.compared == [[Config(), *configs(6)]]
    after = Table()
    assert search(path, after).finals == first.finals
    assert after.compared == []


def test_an_interrupted_search_goes_on(path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        search(path, Table(interrupt_after=5))
    assert [Config(t.evaluation.config) for t in trials_in(path)] == list(SPACE)[:5]
    table = Table()
    found = search(path, table)
    assert table.measured == list(SPACE)[5:]
    assert found.progress.recalled == 5
    assert found.best is not None and found.best.config == {"A": 6}


@pytest.mark.parametrize("name", catalogue.names())
def test_every_tuner_goes_on_where_it_was_interrupted(path: Path, name: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        search(path, Table(interrupt_after=4), catalogue.create_tuner(name, SPACE, 1))
    table = Table()
    search(path, table, catalogue.create_tuner(name, SPACE, 1))
    measured = [Config(t.evaluation.config) for t in trials_in(path, "search")]
    assert len(measured) == len(set(measured)) == 10
    assert measured[4:] == table.measured


def test_patience_counts_what_is_recalled(path: Path) -> None:
    search(path, Table(lambda config: float(config["A"]), window=1), patience=3)
    table = Table(lambda config: float(config["A"]), window=1)
    assert search(path, table, patience=3).stopped == "3 trials in a row were no better"
    assert table.measured == []


def test_trials_of_another_kernel_and_of_other_parameters_are_ignored(path: Path) -> None:
    search(path, Table(), kernel=ANOTHER, budget=Budget(trials=3))
    with Journal(path) as journal:
        for config in (Config({"A": 99}), Config({"B": 1})):
            journal.append(Trial(origin="search", evaluation=evaluation(KERNEL, config, 0.1), seconds=0))
    table = Table()
    found = search(path, table)
    assert table.measured == list(SPACE)
    assert found.progress.recalled == 0
    assert found.progress.trials == 10
    assert found.best is not None and found.best.config == {"A": 6}


def test_a_torn_last_line_is_measured_again(path: Path) -> None:
    search(path, Table(interrupt_after=None), budget=Budget(trials=4))
    lines = [line for line in path.read_text().splitlines(keepends=True) if '"search"' in line]
    path.write_text("".join(lines)[:-25])
    table = Table()
    found = search(path, table)
    assert table.measured == list(SPACE)[3:]
    assert found.progress.recalled == 3


@pytest.mark.parametrize(
    "change",
    [lambda r: r.pop("evaluation"), lambda r: r.update(seconds=-1), lambda r: r["evaluation"].update(status="x")],
)
def test_a_line_that_is_no_trial_is_named(path: Path, change: Callable[[dict[str, object]], object]) -> None:
    search(path, Table(), budget=Budget(trials=4))
    lines = path.read_text().splitlines()
    record = json.loads(lines[2])
    change(record)
    lines[2] = json.dumps(record)
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(JournalError, match=r"journal\.jsonl, line 3 is not a valid trial"):
        search(path, Table())


def test_a_corrupt_line_in_the_middle_is_named(path: Path) -> None:
    search(path, Table(), budget=Budget(trials=4))
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[1][:40], *lines[2:]]) + "\n")
    with pytest.raises(JournalError, match="line 2 is corrupt"):
        search(path, Table())
