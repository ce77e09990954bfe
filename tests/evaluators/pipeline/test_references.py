"""The reference workers that are kept: at other sizes of a problem the same one goes on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import Config, JointProblem, Kernel, ProblemError, TorchProblem
from kernelwright.core.user_package import UserPackage
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.pipeline.references import ReferenceClients
from kernelwright.evaluators.reference.client import ReferenceClient
from kernelwright.evaluators.settings import Sandbox, Settings

from ...conftest import FAST
from ...user_packages import RMS_NORM


@pytest.fixture
def fresh() -> Iterator[LocalEvaluator]:
    with LocalEvaluator(settings=FAST) as evaluator:
        yield evaluator


def test_a_worker_goes_on_at_other_sizes(
    fresh: LocalEvaluator, scale_problem: TorchProblem, scale_kernel: Kernel
) -> None:
    first = fresh.processes.reference_client(scale_problem)
    pid, many = first.pid, first.counted["min_bytes"]
    tiny = scale_problem.at("tiny")
    (found,) = fresh.evaluate(tiny, scale_kernel, [Config()])
    assert found.ok, found.message
    second = fresh.processes.reference_client(tiny)
    assert (second.pid, second.alive, first.alive) == (pid, True, False)
    assert second.counted["min_bytes"] < many
    with pytest.raises(ProblemError, match="serves other sizes now"):
        first.call("properties")
    first.close()
    assert second.alive, "the worker is no longer the first one's"
    (found,) = fresh.evaluate(scale_problem, scale_kernel, [Config()])
    assert found.ok and fresh.processes.reference_client(scale_problem).pid == pid


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_cores_that_a_candidate_took_are_given_back_at_other_sizes(
    fresh: LocalEvaluator, scale_problem: TorchProblem
) -> None:
    first = fresh.processes.reference_client(scale_problem)
    first.wait_ready()
    before = os.sched_getaffinity(first.pid)
    os.sched_setaffinity(first.pid, {min(before)})
    second = fresh.processes.reference_client(scale_problem.at("tiny"))
    assert second.pid == first.pid
    second.call("hand_weights", seed=1, folder=str(fresh.processes.new_folder("weights")), share=False)
    assert os.sched_getaffinity(second.pid) == before


def test_what_was_compiled_or_is_another_problem_gets_a_new_one(
    fresh: LocalEvaluator, scale_problem: TorchProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = scale_problem.at("tiny")
    other = replace(scale_problem, source=scale_problem.source.replace("x * self.weight", "x + self.weight"))
    first = fresh.processes.reference_client(scale_problem)
    assert first.can_move_to(tiny) and not first.can_move_to(other)
    second = fresh.processes.reference_client(other)
    assert second.pid != first.pid and not first.alive
    with monkeypatch.context() as patched:
        patched.setattr(ReferenceClient, "_ask", lambda *_, **__: {"ok": True, "error": None})
        second.call("compile", name="compile", cache=None)
    assert not second.can_move_to(other.at("tiny"))


def test_one_that_cannot_go_on_is_replaced(fresh: LocalEvaluator, scale_problem: TorchProblem) -> None:
    first = fresh.processes.reference_client(scale_problem)
    pid, ask = first.pid, first._ask

    def dies(seconds: float, op: str, **arguments: Any) -> Any:
        first._worker.end()
        return ask(seconds, op, **arguments)

    first._ask = dies  # type: ignore[method-assign]
    second = fresh.processes.reference_client(scale_problem.at("tiny"))
    assert second.alive and second.pid != pid


def test_between_calls_only_the_last_reference_stays_and_none_that_reads_files(scale_problem: TorchProblem) -> None:
    """A user's package may change between two calls of a session; the problem's source is compared."""
    ended: list[TorchProblem] = []

    class Client:
        def __init__(self, problem: TorchProblem) -> None:
            self.problem = problem

        def close(self) -> None:
            ended.append(self.problem)

    theirs = replace(scale_problem, package=UserPackage({}, (), ""))
    references = ReferenceClients(Client, lambda problem: None)  # type: ignore[arg-type]
    references.most = 3
    for problem in (scale_problem.at("tiny"), theirs, scale_problem):
        kept = references.client(problem)
    references.forget(but_last=True)
    assert ended == [scale_problem.at("tiny"), theirs]
    kept.alive = True  # type: ignore[misc]
    assert references.client(scale_problem) is kept
    references.client(theirs)
    references.forget(but_last=True)
    assert ended[2:] == [scale_problem, theirs]


MEETING = """
import os
import time
from pathlib import Path

PLACE = Path({place!r})
(PLACE / str(os.getpid())).touch()
END = time.monotonic() + 60.0
while len(list(PLACE.iterdir())) < 2:
    assert time.monotonic() < END, "no other process imports it meanwhile"
    time.sleep(0.01)
"""


def test_reference_and_candidate_import_a_package_at_the_same_time(tmp_path: Path) -> None:
    folder = RMS_NORM.copied(tmp_path)
    (place := tmp_path / "met").mkdir()
    init = folder / "rownorm" / "__init__.py"
    init.write_text(init.read_text() + MEETING.format(place=str(place)))
    function = RMS_NORM.translated(folder)
    assert isinstance(function.problem, JointProblem)
    with LocalEvaluator("cpu", Settings(sandbox=Sandbox.NONE)) as evaluator:
        problem = next(iter(function.problem.members.values()))
        (found,) = evaluator.evaluate(problem, function.kernel, [Config()])
    assert found.correct, found.message
