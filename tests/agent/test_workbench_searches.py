"""Searches on the workbench: each once, in a journal of its own, alone on a CPU."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from kernelwright.agent.lane import Lane
from kernelwright.agent.searches import TUNING, WantedSearch
from kernelwright.core import Budget, Config, Evaluation, Kernel, Problem, SearchSpace, Trial, read_journal
from kernelwright.core.events import TrialDone
from kernelwright.core.journal import of

from ..fakes import evaluation, kernel
from ..tuners.launching import answering, split_kernel
from .made_up import SPACE, TUNED, Bench, Scripted


def test_a_search_has_a_journal_of_its_own(made: Bench) -> None:
    lane = made.lane()
    found = lane.tune(WantedSearch(TUNED, SPACE, "grid", 3))
    assert [dict(evaluation.config) for evaluation in found.evaluations] == [
        {"SPEED": 20},
        {"SPEED": 16},
        {"SPEED": 12},
    ]
    assert found.best is not None
    assert found.best.latency_ms == 12.0
    assert found.start is not None
    assert found.start.latency_ms == 20.0
    assert (lane.trials, made.bench.trials) == (3, 3)
    assert [candidate.kernel for candidate in lane.tried] == [TUNED.bind({"SPEED": 12})]
    assert made.origins() == []
    assert made.evaluator.calls == []
    (path,) = made.journal.path.parent.glob(f"journal{TUNING}*.jsonl")
    assert [trial.origin for trial in of(read_journal(path), Trial)] == ["search"] * 3 + ["final"] * 2
    assert {trial.origin for trial in made.heard.of(TrialDone)} == {"turn 1: tune with grid"}


def test_a_search_of_several_launches_learns_from_each(made: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """16 trials of 4096 configs would not find the best of the whole."""
    space = SearchSpace.of({name: [1, 2, 3, 4, 5, 6, 7, 8] for name in "ABCD"})
    best, launches = Config({"A": 6, "B": 2, "C": 7, "D": 5}), split_kernel(space)

    def answer(config: Config) -> Evaluation:
        found = answering(lambda name, value: 1.0 + abs(int(value) - int(best[name])))(config or space.default)
        return found.model_copy(update={"kernel_digest": launches.digest, "config": dict(config)})

    def evaluate(problem: Problem, kernel: Kernel, configs: Iterable[Config], known: object) -> Iterator[Evaluation]:
        yield from map(answer, configs)

    monkeypatch.setattr(made.searcher, "evaluate", evaluate)
    monkeypatch.setattr(made.searcher, "compare", lambda problem, kernel, configs: [*map(answer, configs)])
    found = made.lane().tune(WantedSearch(launches, space, "hill_climb", 16))
    assert found.best is not None and found.best.config == best


def test_a_search_whose_kernel_stands_best_says_so(made: Bench) -> None:
    lane = made.lane()
    fast = kernel(4.0, SPEED=4)
    lane.tune(WantedSearch(fast, SearchSpace.of({"SPEED": [8, 16]}), "grid", 9))
    assert [(candidate.kernel, candidate.latency_ms) for candidate in lane.tried] == [(fast, 4.0)]


def test_a_search_does_not_begin_with_what_was_measured_quickly(made: Bench) -> None:
    known = evaluation(TUNED, Config(), 20.0).model_copy(update={"duplicate_of": {}})
    found = made.lane().tune(WantedSearch(TUNED, SPACE, "grid", 3, known=known))
    assert [dict(evaluation.config) for evaluation in found.evaluations] == [
        {"SPEED": 20},
        {"SPEED": 16},
        {"SPEED": 12},
    ]
    assert found.evaluations[0].measurement == known.measurement and found.evaluations[0].duplicate_of is None
    assert (found.progress.trials, found.progress.recalled) == (3, 1)
    assert made.searcher.calls[:2] == [TUNED.bind({"SPEED": speed}).source for speed in (16, 12)]
    elsewhere = SearchSpace.of({"SPEED": [8, 16]})
    other = made.lane().tune(WantedSearch(TUNED, elsewhere, "grid", 3, known=known))
    assert other.progress.recalled == 0, "the kernel's own value is none of this space"


def test_a_search_without_a_correct_config_finds_nothing(made: Bench) -> None:
    lane = made.lane()
    wrong = kernel("wrong_value", SPEED=4)
    found = lane.tune(WantedSearch(wrong, SearchSpace.of({"SPEED": [4, 8]}, SPEED=4), "grid", 9))
    assert found.best is None
    assert lane.tried == []
    assert lane.trials == 2


def test_the_same_search_is_made_once(made: Bench) -> None:
    first = made.lane(1, 0).tune(WantedSearch(TUNED, SPACE, "grid", 2))
    beside, later = made.lane(1, 1), made.lane(2, 0)
    calls = list(made.searcher.calls)
    assert (
        later.tune(WantedSearch(TUNED, SPACE, "grid", 2)) == beside.tune(WantedSearch(TUNED, SPACE, "grid", 2)) == first
    )
    assert made.searcher.calls == calls
    assert (made.bench.trials, made.searchers) == (2, 1)
    assert later.trials == 0
    assert [candidate.latency_ms for candidate in later.tried] == [16.0]


@pytest.mark.parametrize(
    ("space", "tuner", "trials"),
    [(SearchSpace.of({"SPEED": [20, 16]}, SPEED=20), "grid", 2), (SPACE, "hill_climb", 2), (SPACE, "grid", 3)],
)
def test_another_search_finds_for_itself(made: Bench, space: SearchSpace, tuner: str, trials: int) -> None:
    """So a resumed run, whose searches find all of their trials at once, finds in each what it found."""
    made.lane(1).tune(WantedSearch(TUNED, SPACE, "grid", 2))
    made.lane(2).tune(WantedSearch(TUNED, space, tuner, trials))
    assert len(list(made.journal.path.parent.glob(f"journal{TUNING}*.jsonl"))) == 2


def test_searches_are_recalled(tmp_path: Path) -> None:
    results = []
    for _ in range(2):
        made = Bench(tmp_path)
        lane = made.lane()
        results.append([lane.tune(WantedSearch(TUNED, SPACE, "grid", trials)).finals for trials in (2, 4)])
        assert made.bench.trials == 6
        made.journal.close()
    assert results[0] == results[1]
    assert made.searcher.calls == []


def test_a_search_takes_the_place_of_an_evaluator(tmp_path: Path) -> None:
    """On a CPU, where lanes share one, what runs beside a timing would spoil it."""
    inside, most = [0], [0]

    def busy(bound: Kernel, call: int) -> None:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.01)
        inside[0] -= 1

    made = Bench(tmp_path, evaluator=Scripted(change=busy))
    made.searcher = Scripted(change=busy)
    lanes = [made.lane(1, index) for index in range(2)]
    threads = [
        threading.Thread(target=lanes[0].tune, args=(WantedSearch(TUNED, SPACE, "grid", 4),), daemon=True),
        threading.Thread(target=lambda: [lanes[1].evaluate(TUNED, config, "step") for config in SPACE], daemon=True),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert (len(made.searcher.calls), len(made.evaluator.calls)) == (6, 4)
    assert most == [1]


def test_several_kernels_are_screened_once(tmp_path: Path) -> None:
    """Each is named as it was asked for, and a resumed run measures only what is missing."""
    variants = [(TUNED, Config()), (TUNED, Config({"SPEED": 8})), (kernel(5.0), Config())]
    names = ["as it is", "faster", "fast"]
    times: list[list[float | None]] = []
    for calls in (3, 0):
        made = Bench(tmp_path)
        found = made.lane().screen(variants, names)
        beside = made.lane(1, 1).screen(variants, names)
        assert [evaluation.config for evaluation in found] == [{}, {"SPEED": 8}, {}]
        assert [evaluation.kernel_digest for evaluation in found] == [kernel.digest for kernel, _ in variants]
        assert (len(made.searcher.calls), beside) == (calls, found)
        assert [trial.origin for trial in made.heard.of(TrialDone)] == [f"turn 1: {name}" for name in names]
        times.append([evaluation.latency_ms for evaluation in found])
        made.journal.close()
    assert times == [[20.0, 8.0, 5.0]] * 2


def test_a_screening_that_was_cut_off_goes_on(tmp_path: Path) -> None:
    variants = [(kernel(time), Config()) for time in (9.0, 8.0, 7.0)]
    made = Bench(tmp_path)
    made.searcher = Scripted(after=2)
    with pytest.raises(KeyboardInterrupt):
        made.lane().screen(variants, ["a", "b", "c"])
    made.journal.close()
    made = Bench(tmp_path)
    assert [evaluation.latency_ms for evaluation in made.lane().screen(variants, ["a", "b", "c"])] == [9.0, 8.0, 7.0]
    assert made.searcher.calls == [kernel(7.0).source]
    made.journal.close()


def test_a_screening_ends_with_the_time_of_the_run(made: Bench) -> None:
    lane = Lane(made.bench, 1, 0, lambda: "late" if made.bench.trials >= 2 else None)
    assert len(lane.screen([(kernel(time), Config()) for time in (9.0, 8.0, 7.0)], ["a", "b", "c"])) == 2


def test_a_search_ends_with_the_trials_of_the_run(tmp_path: Path) -> None:
    found = []
    for left in (2, 9):
        made = Bench(tmp_path)
        lane = Lane(made.bench, 1, 0, lambda: None, lambda trials=left: Budget(trials=trials))
        found.append(lane.tune(WantedSearch(TUNED, SPACE, "grid", 4)))
        made.journal.close()
    # A resumed run with more of them takes the search as it was.
    assert [len(search.evaluations) for search in found] == [2, 2]
    assert made.searcher.calls == []


def test_a_search_that_its_seconds_ended_is_recalled_as_it_was(tmp_path: Path) -> None:
    found = []
    for _ in range(2):
        made = Bench(tmp_path)
        found.append(made.lane().tune(WantedSearch(TUNED, SPACE, "grid", 4, seconds=0.0)))
        made.journal.close()
        # The seconds of the first run are over, and the second would have its own.
        assert len(found[-1].evaluations) <= 1
    assert found[0].finals == found[1].finals
    assert made.searcher.calls == []
