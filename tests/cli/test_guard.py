"""What ends a command, and how it looks."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
import weakref

import pytest
from kernelwright.cli.execution import guarded, started
from kernelwright.cli.main import app
from kernelwright.core import OptionError


def terminated() -> int:
    os.kill(os.getpid(), signal.SIGTERM)
    raise AssertionError("goes on")


def test_the_exit_code_is_that_of_the_work() -> None:
    before = signal.getsignal(signal.SIGTERM)
    assert guarded(lambda: 3) == 3
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_mistake_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def mistaken() -> int:
        raise OptionError("no such thing; use another")

    assert guarded(mistaken) == 2
    assert capsys.readouterr().err == "error: no such thing; use another\n"


def test_the_log_is_shown_from_the_level_that_a_variable_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def work() -> int:
        logging.getLogger("kernelwright.agent").debug("rule %s does not fit", "split-k")
        return 0

    assert guarded(work) == 0 and capsys.readouterr().err == ""
    monkeypatch.setenv("KERNELWRIGHT_LOG", "debug")
    assert guarded(work) == 0
    assert capsys.readouterr().err.endswith("DEBUG kernelwright.agent: rule split-k does not fit\n")
    monkeypatch.setenv("KERNELWRIGHT_LOG", "loud")
    assert guarded(work) == 2
    said = capsys.readouterr().err
    assert said == "error: KERNELWRIGHT_LOG is 'loud'; set it to debug, info, warning or error\n"


def test_sigterm_ends_the_work_like_ctrl_c(capsys: pytest.CaptureFixture[str]) -> None:
    """What the work cleans up is not cut short by a second one; afterwards the signal is as it was."""
    cleaned: list[str] = []

    def work() -> int:
        try:
            return terminated()
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            cleaned.append("up")

    before = signal.getsignal(signal.SIGTERM)
    assert guarded(work, "interrupted; go on from here") == 130
    assert capsys.readouterr().err == "\ninterrupted; go on from here\n"
    assert cleaned == ["up"]
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_interruption_that_python_loses_comes_again(capsys: pytest.CaptureFixture[str]) -> None:
    class Thing:
        pass

    def work() -> int:
        thing = Thing()
        _reference = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
        del thing  # what its callback raises, Python only reports
        time.sleep(20)
        return 0

    hook = sys.unraisablehook
    assert guarded(work) == 130
    assert capsys.readouterr().err == "\ninterrupted\n"
    assert sys.unraisablehook is hook


def test_in_another_thread_the_signal_is_left_alone() -> None:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(guarded(lambda: 3)))
    thread.start()
    thread.join()
    assert found == [3]


def test_sigterm_of_a_process() -> None:
    program = (
        "import sys, time; from kernelwright.cli.execution import guarded; "
        "sys.exit(guarded(lambda: print('ready', flush=True) or time.sleep(60), 'ended'))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None and run.stdout.readline() == "ready\n"
        run.send_signal(signal.SIGTERM)
        _, errors = run.communicate(timeout=20)
    assert (run.returncode, errors) == (130, "\nended\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("optimize --modle rules", "no such option: --modle (Possible options: --folder, --model, --problem); see"),
        ("optimise", "no such command 'optimise'. Did you mean 'optimize'? see `kernelwright --help`"),
        ("optimize --time-limit abc", "invalid value for '--time-limit': 'abc' is not a number"),
        (
            "optimize --list-slow --format xml",
            "invalid value for '--format': 'xml' is not one of 'plain', 'json', 'csv'",
        ),
        ("corpus promote", "no such command 'promote'; see `kernelwright corpus --help`"),
    ],
)
def test_what_is_misspelt_is_told_in_one_line(
    arguments: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kernelwright", *arguments.split()])
    assert started(app, "kernelwright") == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"error: {message}") and shown.err.count("\n") == 1


def test_without_a_command_there_is_help(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["kernelwright"])
    assert started(app, "kernelwright") in (0, 2)
    shown = capsys.readouterr()
    assert "optimize" in shown.out + shown.err and "error" not in shown.err
