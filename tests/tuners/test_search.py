"""The search's decisions, with an evaluator that answers from a table: no compiler, no clock."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from kernelwright.core import (
    Budget,
    Config,
    Evaluation,
    Journal,
    JournalError,
    Kernel,
    Problem,
    Profile,
    ResultsError,
    SearchSpace,
    Status,
    Trial,
    Tuner,
    read_journal,
)
from kernelwright.tuners import catalogue
from kernelwright.tuners.grid import Grid
from kernelwright.tuners.search import CLOSE, FINALISTS, Found, Progress, Search

from ..agent.test_loop import PROBLEM, PROFILE, evaluation, kernel

SPACE = SearchSpace.of({"A": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]})
KERNEL = kernel(1.0, A=3)
ANOTHER = kernel(2.0, A=3)
WINDOW = 3

Answer = float | str


def times(config: Config) -> Answer:
    """The farther from 6 the slower; 9 fails."""
    return "timeout" if config["A"] == 9 else 1.0 + abs(int(config["A"]) - 6)


class Table:
    """Draws configs as far ahead as its window, and compares finalists by a table of their own."""

    def __init__(
        self,
        searched: Callable[[Config], Answer] = times,
        finals: Callable[[Config], Answer] | None = None,
        interrupt_after: int | None = None,
        window: int = WINDOW,
    ) -> None:
        self.searched = searched
        self.finals = finals or searched
        self.interrupt_after = interrupt_after
        self.window = window
        self.drawn: list[Config] = []
        self.measured: list[Config] = []
        self.compared: list[list[Config]] = []
        self.closed = False

    def evaluate(
        self, problem: Problem, kernel: Kernel, configs: Iterable[Config], known: Sequence[Evaluation] = ()
    ) -> Iterator[Evaluation]:
        try:
            yield from self._evaluate(kernel, configs)
        finally:
            self.closed = True

    def _evaluate(self, kernel: Kernel, configs: Iterable[Config]) -> Iterator[Evaluation]:
        source, waiting = iter(configs), deque[Config]()
        while True:
            while len(waiting) < self.window and (config := next(source, None)) is not None:
                self.drawn.append(config)
                waiting.append(config)
            if not waiting:
                return
            if len(self.measured) == self.interrupt_after:
                raise KeyboardInterrupt
            config = waiting.popleft()
            self.measured.append(config)
            found = evaluation(kernel, config, self.searched(config))
            yield found.model_copy(update={"reference": None})

    def compare(self, problem: Problem, kernel: Kernel, configs: Sequence[Config]) -> list[Evaluation]:
        self.compared.append(list(configs))
        as_it_stands = Config({"A": 3})
        return [
            evaluation(kernel, config, self.finals(config or as_it_stands)).model_copy(update={"config": dict(config)})
            for config in configs
        ]

    def profile(self, problem: Problem) -> Profile:
        return PROFILE


class Watcher:
    """Remembers what it is shown."""

    def __init__(self) -> None:
        self.trials: list[tuple[int, int]] = []
        self.finalists: list[Config] = []

    def trial(self, evaluation: Evaluation, progress: Progress) -> None:
        self.trials.append((int(evaluation.config["A"]), progress.trials))

    def finals(self, configs: Sequence[Config]) -> None:
        self.finalists = list(configs)


class Clock:
    """Goes on by one second whenever it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def configs(*values: int) -> list[Config]:
    return [Config({"A": value}) for value in values]


def search(
    path: Path,
    table: Table,
    tuner: Tuner | None = None,
    budget: Budget | None = None,
    patience: int | None = None,
    watcher: Watcher | None = None,
    kernel: Kernel = KERNEL,
    clock: Callable[[], float] | None = None,
) -> Found:
    with Journal(path) as journal:
        chooses = tuner or Grid(SPACE)
        return Search(
            PROBLEM,
            kernel,
            SPACE,
            chooses,
            table,
            journal,
            budget or Budget(),
            watcher or Watcher(),
            patience,
            clock or Clock(),
        ).run()


def trials_in(path: Path, origin: str | None = None) -> list[Trial]:
    trials = [Trial.from_record(record) for record in read_journal(path) if record["kind"] == "trial"]
    return [trial for trial in trials if origin in (None, trial.origin)]


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
    assert all(trial.seconds >= 0 and trial.at for trial in trials_in(path))


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
    found = search(path, Table(window=window), catalogue.create(name, SPACE, 1))
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


def test_what_ends_the_search_closes_the_evaluator(path: Path) -> None:
    """A full disk, a mistake in the tuner: nothing goes on behind the back of who is told."""
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


def test_patience_begins_anew_with_every_better_one(path: Path) -> None:
    found = search(path, Table(window=1), patience=4)
    # Up to 6 each is better; then 7, 8, 9 and 10 are not, and the space ends with them.
    assert found.progress.trials == 10
    assert found.stopped == "4 trials in a row were no better"


def test_finalists_are_the_close_ones_and_the_kernel_as_it_stands(path: Path) -> None:
    near = {4: 1.0, 5: CLOSE - 0.01, 6: CLOSE + 0.01, 7: 1.05}
    table, watcher = Table(lambda config: near.get(int(config["A"]), 5.0)), Watcher()
    found = search(path, table, watcher=watcher)
    assert table.compared == [[Config(), *configs(4, 7, 5)]]
    assert watcher.finalists == table.compared[0]
    assert len(found.finals) == 4
    assert [Config(t.evaluation.config) for t in trials_in(path, "final")] == table.compared[0]


def test_at_most_so_many_finalists(path: Path) -> None:
    table = Table(lambda config: 1.0 + 0.001 * int(config["A"]))
    search(path, table)
    assert table.compared == [[Config(), *list(SPACE)[:FINALISTS]]]


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


def test_everything_fails(path: Path) -> None:
    table = Table(lambda config: "compile_error")
    found = search(path, table)
    assert found.best is None
    assert found.progress.best is None
    assert found.progress.failed == found.progress.trials == 10
    assert table.compared == [[Config()]]
    assert len(trials_in(path, "search")) == 10


def test_a_resumed_search_goes_on_and_measures_nothing_twice(path: Path) -> None:
    search(path, Table(), budget=Budget(trials=4))
    table, watcher = Table(), Watcher()
    found = search(path, table, budget=Budget(trials=7), watcher=watcher)
    assert table.measured == configs(5, 6, 7)
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
        search(path, Table(interrupt_after=4), catalogue.create(name, SPACE, 1))
    table = Table()
    search(path, table, catalogue.create(name, SPACE, 1))
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
            journal.append(Trial(origin="search", evaluation=evaluation(KERNEL, config, 0.1), seconds=0).record())
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
    "change", [lambda r: r.pop("evaluation"), lambda r: r.update(seconds=-1), lambda r: r["evaluation"].update(x=1)]
)
def test_a_line_that_is_no_trial_is_named(path: Path, change: Callable[[dict[str, object]], object]) -> None:
    search(path, Table(), budget=Budget(trials=4))
    lines = path.read_text().splitlines()
    record = json.loads(lines[2])
    change(record)
    lines[2] = json.dumps(record)
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(JournalError, match=r"journal\.jsonl, line 3 is no valid trial"):
        search(path, Table())


def test_a_corrupt_line_in_the_middle_is_named(path: Path) -> None:
    search(path, Table(), budget=Budget(trials=4))
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[1][:40], *lines[2:]]) + "\n")
    with pytest.raises(JournalError, match="line 2 is corrupt"):
        search(path, Table())
