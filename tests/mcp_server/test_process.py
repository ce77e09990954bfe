"""A job's process: its messages, its failures, and its end."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import anyio
import pytest
from kernelwright.core import KernelwrightError
from kernelwright.mcp_server import workshop as process
from kernelwright.mcp_server.messages import Done, JobRequest, JobStep
from kernelwright.mcp_server.workshop import JobFailedError, JobTimeoutError, run_job


def job(monkeypatch: pytest.MonkeyPatch, program: str, seconds: float = 20.0) -> tuple[Done, list[JobStep]]:
    """What a program in the place of a job's process leads to."""
    monkeypatch.setattr(
        process, "COMMAND", (sys.executable, "-c", f"import sys, time; sys.stdin.readline()\n{program}")
    )
    steps: list[JobStep] = []

    async def tell(step: JobStep) -> None:
        steps.append(step)

    return anyio.run(run_job, JobRequest(job="evaluate"), seconds, tell), steps


SAY = """
def say(text):
    print(text, flush=True)
"""


def test_steps_then_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    step = JobStep(done=1, total=2, text="half")
    done, steps = job(
        monkeypatch, f"{SAY}\nsay('{step.model_dump_json()}'); say('{Done(result={'a': 1}).model_dump_json()}')"
    )
    assert (done.result, steps) == ({"a": 1}, [step])


def test_a_mistake_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    said = '{"kind": "refused", "message": "no kernel", "hint": "name one"}'
    with pytest.raises(KernelwrightError, match=r"^no kernel; name one$"):
        job(monkeypatch, f"{SAY}\nsay('{said}')")


def test_a_job_that_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(JobFailedError, match="without a result"):
        job(monkeypatch, "import os; os.abort()")


def test_a_job_that_is_too_slow_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(JobTimeoutError):
        job(monkeypatch, f"sys.stdin.read(); open({str(tmp_path / 'ended')!r}, 'w')", seconds=0.3)
    assert (tmp_path / "ended").exists(), "the end of its input tells it to clean up"
    assert time.monotonic() - began < process.GRACE_S


def test_a_job_that_does_not_listen_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "GRACE_S", 0.2)
    with pytest.raises(JobTimeoutError):
        job(monkeypatch, "time.sleep(60)", seconds=0.2)
