"""Tasks side by side."""

from __future__ import annotations

import contextvars
import threading
import time
from functools import partial

import pytest
from kernelwright.agent.parallel import raise_any, run_parallel
from kernelwright.core import ModelError, ReplyPendingError

COLOR = contextvars.ContextVar("COLOR", default="none")


def test_one_task_runs_in_this_thread() -> None:
    assert run_parallel([threading.get_ident]) == [threading.get_ident()]


def test_results_come_in_the_order_of_the_tasks() -> None:
    def after(seconds: float) -> float:
        time.sleep(seconds)
        return seconds

    delays = [0.06, 0.0, 0.03]
    assert run_parallel([partial(after, delay) for delay in delays]) == delays


def test_tasks_run_at_the_same_time_and_leave_nobody_waiting() -> None:
    barrier = threading.Barrier(4, timeout=20)
    assert sorted(map(str, run_parallel([barrier.wait] * 4))) == ["0", "1", "2", "3"]


@pytest.mark.parametrize("count", [1, 2])
def test_what_a_task_raises_is_its_outcome(count: int) -> None:
    def interrupted() -> int:
        raise KeyboardInterrupt

    outcomes = run_parallel([interrupted, lambda: 7][:count])
    assert isinstance(outcomes[0], KeyboardInterrupt)
    assert outcomes[1:] == [7][: count - 1]


def test_tasks_see_the_context_of_the_caller_and_keep_theirs_apart() -> None:
    def paint(color: str) -> tuple[str, str]:
        before = COLOR.get()
        COLOR.set(color)
        time.sleep(0.01)
        return before, COLOR.get()

    COLOR.set("white")
    assert run_parallel([partial(paint, color) for color in ("red", "blue")]) == [("white", "red"), ("white", "blue")]
    assert COLOR.get() == "white"


def test_a_failure_is_raised_rather_than_that_a_reply_is_missing() -> None:
    raise_any([1, None, "fine"])
    with pytest.raises(ModelError, match="refused"):
        raise_any([1, ReplyPendingError("1 is not there"), ModelError("refused"), ValueError("later")])
    with pytest.raises(ReplyPendingError, match=r"^1 is not there; 2 is not there$"):
        raise_any(
            [
                ReplyPendingError("1 is not there"),
                1,
                ReplyPendingError("2 is not there"),
                ReplyPendingError("1 is not there"),
            ]
        )
