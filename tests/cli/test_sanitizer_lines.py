"""What runs of `optimize` show of compute-sanitizer."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import kernelwright
import pytest
from kernelwright.cli.screens import Display, Screen
from kernelwright.cli.terminal import RunLines
from kernelwright.commands.optimize import Options as OptimizeOptions
from kernelwright.commands.optimize import Result
from kernelwright.core import Budget, Config, OptionError
from kernelwright.core.events import RunStarted, TrialDone
from kernelwright.runtime.runtime import Runtime
from rich.console import Console

from ..fakes import evaluation, kernel
from ..mcp_server.test_replies import JOB, listed, run

SAID = {"memcheck": "clean", "racecheck": "not finished: late"}
LINE = "compute-sanitizer: memcheck clean; racecheck not finished: late"


@pytest.mark.parametrize("verbose", [False, True])
def test_a_check_of_which_more_is_asked_for_shows_all(capsys: pytest.CaptureFixture[str], verbose: bool) -> None:
    lines = RunLines(Display(verbose=verbose))
    lines.emit(RunStarted("level1/1_1", "triton", "tiny", "cpu", 1.5, "the reference", 1, 1, by_model=False))
    lines.emit(TrialDone("final", evaluation(kernel("1.0"), Config(), 1.0).model_copy(update={"sanitizer": SAID})))
    assert (f"  {LINE}\n" in capsys.readouterr().out) == verbose


@pytest.mark.parametrize("said", [SAID, {"memcheck": "clean"}])
def test_the_last_lines_say_what_is_not_clean(tmp_path: Path, said: dict[str, str]) -> None:
    outcome = run(tmp_path, kernel(20.0), listed(kernel(4.0)))
    object.__setattr__(outcome, "best", outcome.best.model_copy(update={"sanitizer": said}))
    result = Result(
        job=JOB,
        outcome=outcome,
        kernel=tmp_path / "fast.py",
        history=tmp_path / "h.json",
        journal=tmp_path / "journal.jsonl",
        target=1.5,
        model="rules",
        spent=Budget(),
    )
    screen, text = Screen(Display()), StringIO()
    screen.console = Console(file=text, width=500)
    screen.show(result, screen.console)
    assert (LINE in text.getvalue()) == (said is SAID) and "20.000 ms -> 4.000 ms" in text.getvalue()
    assert result.summary()["best"]["sanitizer"] == said


def test_a_cpu_has_no_compute_sanitizer() -> None:
    with pytest.raises(OptionError, match="compute-sanitizer needs a GPU"):
        kernelwright.evaluate("1_19", device="cpu", sanitize=True)
    with Runtime(lambda event: None) as runtime:
        assert runtime.device(OptimizeOptions(kernel="1_19", device="cpu")) == "cpu", "its final checks leave it out"
