"""A search as the user sees it while it runs."""

from __future__ import annotations

from io import StringIO

import pytest
from kernelwright.cli.screens import Display, Screen, SearchLines, SearchTable
from kernelwright.core import Budget, Config, SearchSpace
from kernelwright.core.events import FinalsStarted, Finished, SearchStarted
from kernelwright.tuners.discovery import FoundSpace
from kernelwright.tuners.search import Progress
from rich.console import Console

from ..fakes import evaluation, kernel

SPACE = SearchSpace.of({"A": [1, 2, 3, 4, 5]})
PRUNED = SearchSpace(SPACE.parameters, ["A < 4"])
KERNEL = kernel(1.0, A=1)


def started(whole: SearchSpace, left: SearchSpace, rules: tuple[str, ...], budget: Budget) -> SearchStarted:
    before, found = FoundSpace(whole, "given").count, FoundSpace(left, "given", rules)
    ruled_out = 0 if left is whole else None if before is None or found.count is None else before - found.count
    return SearchStarted("1_1", "given", left, found.count, ruled_out, rules, budget)


def watched(terminal: bool, budget: Budget, quiet: bool = False, recalled: int = 0, space: SearchSpace = PRUNED) -> str:
    """What is shown of three trials and the finals."""
    shown, text = Display(quiet=quiet), StringIO()
    screen = Screen(shown) if quiet else SearchTable(shown) if terminal else SearchLines(shown)
    screen.console = Console(file=text, force_terminal=terminal, width=160, color_system=None)
    screen.emit(started(SPACE, space, ("A < 4",), budget))
    progress = Progress(recalled=recalled)
    trials = [
        evaluation(KERNEL, Config({"A": 1}), 2.0),
        evaluation(KERNEL, Config({"A": 2}), "compile_error"),
        evaluation(KERNEL, Config({"A": 3}), 2.0).model_copy(update={"duplicate_of": {"A": 1}}),
    ]
    for trial in trials:
        progress.add(trial)
        progress.seconds += 1.0
        screen.emit(progress.event(trial))
    screen.emit(FinalsStarted((Config(), Config({"A": 1}))))
    screen.emit(Finished())
    return text.getvalue()


def test_a_live_table_on_a_terminal() -> None:
    shown = watched(True, Budget(trials=10, seconds=30))
    assert "tuning 1_1: 3 configs (given space), 2 ruled out by the device" in shown
    last = shown[shown.rindex("config ") :]
    for part in (
        "A=1     ok             2.0000 ms  best",
        "compile_error",
        "as told",
        "(the code of A=1)",
        "best 2.0000 ms: A=1",
        "2 correct, 1 failed, 2 ruled out, 1 duplicates",
        "trial 3/3",
        "3 s, about 0 s left",
    ):
        assert part in last, last
    assert "measuring 1 finalists and the unchanged kernel, interleaved" in shown


@pytest.mark.parametrize(
    ("budget", "left"), [(Budget(trials=2), "about 0 s left"), (Budget(seconds=2.5), "about 0 s left")]
)
def test_the_time_that_is_left_is_never_below_zero(budget: Budget, left: str) -> None:
    assert left in watched(True, budget)


@pytest.mark.parametrize("recalled", [0, 1, 3])
def test_an_estimate_counts_trials_and_seconds_of_an_earlier_run(recalled: int) -> None:
    assert "3 s, about 2 s left" in watched(True, Budget(), recalled=recalled, space=SPACE)
    assert "3 s, about 1 s left" in watched(True, Budget(seconds=4), recalled=recalled, space=SPACE)


def test_lines_in_a_pipe() -> None:
    lines = watched(False, Budget()).splitlines()
    assert lines == [
        "tuning 1_1: 3 configs (given space), 2 ruled out by the device",
        "  device: A < 4",
        "[1/3] A=1: ok 2.0000 ms  best",
        "[2/3] A=2: compile_error   as told",
        "[3/3] A=3: ok 2.0000 ms  (the code of A=1)",
        "measuring 1 finalists and the unchanged kernel, interleaved",
    ]


def test_a_long_config_is_one_aligned_line_of_what_differs_from_the_best() -> None:
    values = {f"PARAMETER_{number}": number for number in range(12)}
    screen, text = SearchLines(Display()), StringIO()
    screen.console = Console(file=text, width=160)
    progress = Progress()
    for change, outcome in (({}, 2.0), ({"PARAMETER_3": 30}, 1.0), ({"PARAMETER_5": 50}, "compile_error")):
        trial = evaluation(KERNEL, Config({**values, **change}), outcome)
        progress.add(trial)
        progress.seconds += 60.0
        screen.emit(progress.event(trial, Budget(trials=100)))
    first, *others = text.getvalue().splitlines()
    assert first.startswith("[  1/100] ok               2.0000 ms  best  about 99 min left  PARAMETER_0=0, ")
    assert others == [
        "[  2/100] ok               1.0000 ms  best  about 98 min left  PARAMETER_3=30",
        "[  3/100] compile_error                     about 97 min left  PARAMETER_3=3, PARAMETER_5=50  as told",
    ]
    assert max(map(len, (first, *others))) <= 140 and first.endswith("...")


@pytest.mark.parametrize("terminal", [True, False])
def test_nothing_when_quiet(terminal: bool) -> None:
    assert watched(terminal, Budget(), quiet=True) == ""


def test_what_is_too_large_to_count() -> None:
    """Nothing is ruled out, or nobody knows how much."""
    large = SearchSpace.of({name: list(range(200)) for name in "ABCD"})
    less = SearchSpace(large.parameters, ["A < 100"])
    for space, left_out in ((large, "0"), (less, "some")):
        screen, text = SearchLines(Display()), StringIO()
        screen.console = Console(file=text, width=160)
        screen.emit(started(large, space, (), Budget()))
        wanted = f"tuning 1_1: some of {200**4} configs (given space), {left_out} ruled out by the device\n"
        assert text.getvalue() == wanted
