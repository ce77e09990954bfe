"""A command whose output does not end is told of, with the process that holds it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from .command_output import output

LEAVES = """
import os, sys, time
def waits_for_ever():
    time.sleep(600)
if os.fork() == 0:
    waits_for_ever()
print("done", flush=True)
"""


def started(program: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONFAULTHANDLER": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_a_command_that_ends() -> None:
    with started("print('done')") as run:
        assert output(run, list) == "done\n"
        assert run.returncode == 0


def test_a_command_that_is_at_work_is_waited_for() -> None:
    with started(
        "import time; began = time.monotonic()\nwhile time.monotonic() < began + 6: pass\nprint('done')"
    ) as run:
        assert output(run, list, quiet_s=2) == "done\n"


def test_a_process_that_is_left_is_shown_with_its_stack_and_ended() -> None:
    with started(LEAVES) as run, pytest.raises(pytest.fail.Exception) as failed:
        output(run, list, quiet_s=3)
    message = str(failed.value)
    assert "its output has not ended (exit code 0)" in message
    assert "holds the output: process " in message and "S (sleeping), 1 threads" in message
    assert "done" in message and "in waits_for_ever" in message, message
