"""The search's decisions: what is measured, when it ends, who wins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from kernelwright.core import Budget, Config, Evaluation, Journal, Kernel, Problem, ResultsError, Status
from kernelwright.core.workload_rows import merged
from kernelwright.tuners import catalogue
from kernelwright.tuners.grid import Grid
from kernelwright.tuners.search import CLOSE, FINALISTS, Found, Search

from ..core.test_workload_rows import timed
from ..fakes import PROBLEM
from .searching import KERNEL, SPACE, WINDOW, Answer, Clock, Table, Watcher, configs, search, times, trials_in


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def test_everything_is_measured_in_order_and_written_down(path: Path) -> None:
    table, watcher = Table(), Watcher()
    found = search(path, table, watcher=watcher)
    assert table.measured == list(SPACE)
    assert [Config(e.config) for e in found.evaluations] == list(SPACE)
    assert watcher.trials == [(a, a) for a in range(1, 11)]
    assert [Config(t.evaluation.config) for t in trials_in(path, "search")] == list(SPACE)
    assert found.progress.trials == 10
    assert found.progress.failed == found.progress.statuses[Status.TIMEOUT] == 1
    assert found.progress.best is not None and found.progress.best.config == {"A": 6}
    assert found.stopped == "every config of the space was tried"
    assert all(trial.at for trial in trials_in(path))


def test_a_space_of_any_kind_is_searched(path: Path) -> None:
    """Of a space that is not a product of parameters, the search asks only whether it holds a config."""

    class Even:
        def __contains__(self, config: object) -> bool:
            return isinstance(config, Config) and int(config["A"]) % 2 == 0

    class Listed:
        def __init__(self, *values: int) -> None:
            self.left = configs(*values)
            self.results: list[int] = []

        def ask(self, n: int = 1) -> list[Config]:
            asked, self.left = self.left[:n], self.left[n:]
            return asked

        def tell(self, config: Config, evaluation: Evaluation) -> None:
            self.results.append(int(config["A"]))

    def searched(tuner: Listed) -> Found:
        with Journal(path) as journal:
            return Search(PROBLEM, KERNEL, Even(), tuner, Table(), journal, Budget(), Watcher(), clock=Clock()).run()

    first, second = Listed(2, 4, 7), Listed(6)
    assert searched(first).best is not None
    found = searched(second)
    assert second.results == [2, 4, 6], "the 7 is in the journal, and no member of the space"
    assert found.best is not None and found.best.config == {"A": 6}


def test_every_trial_is_on_disk_before_the_next_is_measured(path: Path) -> None:
    seen: list[int] = []

    def look(config: Config) -> Answer:
        seen.append(len(trials_in(path)))
        return times(config)

    search(path, Table(look, times))
    assert seen == list(range(10))


def test_the_tuner_is_asked_no_further_ahead_than_the_evaluator_draws(path: Path) -> None:
    class Counting(Grid):
        told = 0
        ahead: list[int] = []

        def ask(self, n: int = 1) -> list[Config]:
            self.ahead.append(len(table.drawn) - self.told)
            return super().ask(n)

        def tell(self, config: Config, evaluation: Evaluation) -> None:
            self.told += 1

    table = Table()
    tuner = Counting(SPACE)
    search(path, table, tuner)
    assert tuner.told == 10
    assert max(tuner.ahead) == WINDOW - 1


@pytest.mark.parametrize("name", catalogue.names())
@pytest.mark.parametrize("window", [1, 4])
def test_with_every_tuner(path: Path, name: str, window: int) -> None:
    found = search(path, Table(window=window), catalogue.create_tuner(name, SPACE, 1))
    assert {Config(e.config) for e in found.evaluations} == set(SPACE)
    assert found.progress.trials == 10
    assert found.best is not None and found.best.config == {"A": 6}


@pytest.mark.parametrize("trials", [1, 4, 9])
def test_a_budget_in_trials(path: Path, trials: int) -> None:
    table = Table()
    found = search(path, table, budget=Budget(trials=trials))
    assert table.drawn == table.measured == list(SPACE)[:trials]
    assert found.stopped == f"budget of {trials} trials used up"
    assert found.progress.trials == trials


def test_a_budget_in_seconds(path: Path) -> None:
    """When time is up, what was drawn and not measured yet is given up."""
    clock = Clock()

    def slow(config: Config) -> Answer:
        clock.now += 100.0
        return times(config)

    table = Table(slow, times)
    found = search(path, table, budget=Budget(seconds=250), clock=clock)
    assert found.stopped == "budget of 250 seconds used up"
    assert table.measured == list(SPACE)[:3]
    assert table.drawn == list(SPACE)[:5]
    assert 300 <= found.progress.seconds < 400


def test_every_trial_says_how_long_it_took(path: Path) -> None:
    """Finalists are timed interleaved, and share the time equally; one of these is the unchanged kernel."""
    clock = Clock()

    def taking(seconds: float) -> Callable[[Config], Answer]:
        def answer(config: Config) -> Answer:
            clock.now += seconds
            return 1.0

        return answer

    search(path, Table(taking(100.0), taking(40.0)), clock=clock)
    # The clock itself goes on by a second whenever it is read.
    assert [100 < trial.seconds < 110 for trial in trials_in(path, "search")] == [True] * 10
    each = (40 * FINALISTS + 1) / (1 + FINALISTS)
    assert [trial.seconds for trial in trials_in(path, "final")] == [each] * (1 + FINALISTS)


def test_what_ends_the_search_closes_the_evaluator(path: Path) -> None:
    """A full disk, a mistake in the tuner: nothing keeps running after the error."""
    table = Table()

    class Failing(Grid):
        def tell(self, config: Config, evaluation: Evaluation) -> None:
            raise ResultsError("no room")

    with Journal(path) as journal:
        run = Search(PROBLEM, KERNEL, SPACE, Failing(SPACE), table, journal, Budget(), Watcher())
        with pytest.raises(ResultsError):
            run.run()
    assert table.closed


def test_patience(path: Path) -> None:
    table = Table(lambda config: float(config["A"]), window=1)
    found = search(path, table, patience=4)
    assert table.measured == configs(1, 2, 3, 4, 5)
    assert found.stopped == "4 trials in a row were no better"


def test_patience_restarts_with_every_better_one(path: Path) -> None:
    found = search(path, Table(window=1), patience=4)
    # Up to 6 each is better; then 7, 8, 9 and 10 are not, and the space ends with them.
    assert found.progress.trials == 10
    assert found.stopped == "4 trials in a row were no better"


class AtBoth(Table):
    """Small is fast for few, and by the mean over both; large is fast for many."""

    def _evaluate(self, kernel: Kernel, configs: Iterable[Config]) -> Iterator[Evaluation]:
        for evaluation in super()._evaluate(kernel, configs):
            size = int(evaluation.config["A"])
            both = merged({"few": timed(float(size)), "many": timed(20.0 - size)})
            yield both.model_copy(update={"config": evaluation.config, "kernel_digest": evaluation.kernel_digest})


def test_the_fastest_of_each_set_of_workloads_is_a_finalist_and_counts_for_patience(path: Path) -> None:
    table, mean = AtBoth(lambda config: 1.0, window=1), AtBoth(lambda config: 1.0, window=1)
    with Journal(path) as journal, Journal(path.with_name("mean.jsonl")) as other:
        given = (Budget(), Watcher(), 3)
        Search(PROBLEM, KERNEL, SPACE, Grid(SPACE), mean, other, *given, clock=Clock()).run()
        sets = [["few"], ["many"]]
        Search(PROBLEM, KERNEL, SPACE, Grid(SPACE), table, journal, *given, clock=Clock(), workload_sets=sets).run()
    assert mean.measured == configs(1, 2, 3, 4)
    assert mean.compared == [[Config(), *configs(1)]]
    assert table.measured == configs(*range(1, 11))
    assert table.compared == [[Config(), *configs(1, 10)]]


def test_finalists_are_the_close_ones_and_the_kernel_as_it_stands(path: Path) -> None:
    near = {4: 1.0, 5: CLOSE - 0.01, 6: CLOSE + 0.01, 7: 1.05}
    table, watcher = Table(lambda config: near.get(int(config["A"]), 5.0)), Watcher()
    found = search(path, table, watcher=watcher)
    assert table.compared == [[Config(), *configs(4, 7, 5)]]
    assert watcher.finalists == table.compared[0]
    assert len(found.finals) == 4
    assert [Config(t.evaluation.config) for t in trials_in(path, "final")] == table.compared[0]


def test_at_most_so_many_finalists(path: Path) -> None:
    table = Table(lambda config: 1.0 + 0.001 * int(config["A"]) + (config["A"] == 3))
    search(path, table)
    assert table.compared == [[Config(), *configs(1, 2, 4, 5, 6)]]
    assert len(table.compared[0]) == 1 + FINALISTS


def test_a_finalist_that_is_the_unchanged_kernel_is_measured_once(path: Path) -> None:
    table = Table(lambda config: 1.0 + 0.01 * abs(int(config["A"]) - 3))
    found = search(path, table)
    assert table.compared == [[Config(), *configs(2, 4, 1, 5)]]
    assert found.best is not None and found.best.config == {"A": 3} and found.best.duplicate_of == {}
    assert found.start is not None and found.best.measurement == found.start.measurement
    assert found.faster is None
    assert [Config(t.evaluation.config) for t in trials_in(path, "final")] == [Config(), *configs(3, 2, 4, 1, 5)]
    assert search(path, Table()).finals == found.finals, "a resumed search finds all of them"


def test_a_duplicate_is_no_finalist(path: Path) -> None:
    class Twins(Table):
        def evaluate(
            self, problem: Problem, kernel: Kernel, configs: Iterable[Config], known: Sequence[Evaluation] = ()
        ) -> Iterator[Evaluation]:
            for found in super().evaluate(problem, kernel, configs):
                same = {"duplicate_of": {"A": 1}} if found.config["A"] == 2 else {}
                yield found.model_copy(update=same)

    table = Twins(lambda config: 1.0 if int(config["A"]) <= 2 else 5.0)
    found = search(path, table)
    assert table.compared == [[Config(), *configs(1)]]
    assert found.progress.duplicates == 1


def test_the_winner_is_that_of_the_finals(path: Path) -> None:
    table = Table(
        lambda config: {4: 1.0, 5: 1.01}.get(int(config["A"]), 5.0),
        lambda config: {4: 1.3, 5: 1.2}.get(int(config["A"]), 5.0),
    )
    found = search(path, table)
    assert found.progress.best is not None and found.progress.best.config == {"A": 4}
    assert found.best is not None and found.best.config == {"A": 5}
    assert found.best.latency_ms == 1.2
    assert found.faster is found.best
    assert found.start is not None and found.start.latency_ms == 5.0
    assert [final.latency_ms for final in found.finals] == [1.2, 1.3, 5.0]


def test_a_finalist_that_fails_in_the_finals_does_not_win(path: Path) -> None:
    table = Table(
        lambda config: {4: 1.0, 5: 1.01}.get(int(config["A"]), 5.0),
        lambda config: "wrong_value" if config["A"] == 4 else 1.2,
    )
    found = search(path, table)
    assert found.best is not None and found.best.config == {"A": 5}
    assert found.finals[-1].status is Status.WRONG_VALUE


def test_the_kernel_as_it_stands_is_the_start_even_where_it_is_fastest(path: Path) -> None:
    found = search(path, Table(times, lambda config: 0.5 if config["A"] == 3 else 1.0))
    assert found.start is not None and found.start is found.finals[0]
    assert found.best is not None and found.best.config == {"A": 6}
    assert found.faster is None


def test_everything_fails(path: Path) -> None:
    table = Table(lambda config: "compile_error")
    found = search(path, table)
    assert found.best is None
    assert found.progress.best is None
    assert found.progress.failed == found.progress.trials == 10
    assert table.compared == [[Config()]]
    assert len(trials_in(path, "search")) == 10
