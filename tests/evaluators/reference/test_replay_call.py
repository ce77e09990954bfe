"""A launch plan that ends the process that executes it, or does not end, is no failure of the reference."""

from __future__ import annotations

from typing import Any

import pytest
from kernelwright.core import Status
from kernelwright.evaluators.reference.client import ReferenceClient, ReplayFailed
from kernelwright.evaluators.workers.client import WorkerDied, WorkerTimeout


class Answers:
    """A worker that answers, or raises an exception."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def call(self, seconds: float, **request: Any) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def end(self) -> None:
        self._answer = None

    def discard(self) -> None:
        self._answer = None


def replayed(answer: Any) -> tuple[Any, Answers]:
    worker = Answers(answer)
    client = ReferenceClient.__new__(ReferenceClient)
    client._worker, client._moved = worker, False  # type: ignore[assignment]
    return client.replay_call(3.0, "replay", number=1), worker


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (WorkerTimeout(), Status.TIMEOUT),
        (WorkerDied(-11), Status.CRASHED),
        ({"ok": False, "error": "RuntimeError: no"}, Status.RUNTIME_ERROR),
        ({"ok": True, "status": "runtime_error", "message": "an illegal memory access"}, Status.RUNTIME_ERROR),
    ],
)
def test_the_plan_is_at_fault(answer: Any, status: Status) -> None:
    with pytest.raises(ReplayFailed) as failed:
        replayed(answer)
    assert failed.value.status is status


def test_a_wrong_result_is_an_answer() -> None:
    answer = {"ok": True, "status": "wrong_value", "message": "3 of 4 elements differ"}
    assert replayed(answer)[0] == answer
