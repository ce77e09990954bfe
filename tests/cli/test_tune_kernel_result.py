"""The result of a search in words, from verdicts that are made up."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from kernelwright.cli.screens import Display, Screen
from kernelwright.commands.tune.kernel import Result
from kernelwright.core import Config, Evaluation
from rich.console import Console

from ..runtime.tunings import OTHER, OWN, timed, tuned


def shown(result: Result) -> tuple[str, str]:
    """What the user reads: the result, and warnings."""
    screen, texts = Screen(Display()), (StringIO(), StringIO())
    screen.console, screen.errors = (Console(file=text, width=500) for text in texts)
    screen.show(result, screen.console)
    return texts[0].getvalue(), texts[1].getvalue()


def test_a_faster_kernel(tmp_path: Path) -> None:
    result, warnings = shown(tuned(tmp_path, timed(OTHER, 1.0), timed(Config(), 2.0)))
    assert "2.00 times as fast as the kernel's own constants" in result
    assert warnings == ""


@pytest.mark.parametrize(
    ("best", "start"), [(timed(OTHER, 1.0, 1.03), timed(Config(), 1.02, 1.05)), (timed(OWN, 1.0), timed(Config(), 1.7))]
)
def test_a_kernel_that_is_not_measurably_faster(tmp_path: Path, best: Evaluation, start: Evaluation) -> None:
    assert "not measurably faster than the kernel's own constants" in shown(tuned(tmp_path, best, start))[0]


def test_what_the_sanitizer_says_is_a_line_unless_all_is_clean(tmp_path: Path) -> None:
    for said, line in (("clean", False), ("not run: compute-sanitizer is not installed", True)):
        best = timed(OTHER, 1.0).model_copy(update={"sanitizer": {"memcheck": said, "racecheck": said}})
        result = shown(tuned(tmp_path, best, timed(Config(), 2.0)))[0]
        assert (f"compute-sanitizer: memcheck, racecheck {said}\n" in result) == line


@pytest.mark.parametrize("disturbed", [0, 1])
def test_a_disturbed_gain_is_warned_of(tmp_path: Path, disturbed: int) -> None:
    contention = [1.5 if number == disturbed else None for number in range(2)]
    best = timed(OTHER, 1.0, contention=contention[0])
    result = tuned(tmp_path, best, timed(Config(), 2.0, contention=contention[1]))
    assert "warning: other processes used 1.5 cores while this was timed" in shown(result)[1]
