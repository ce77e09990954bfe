"""Runs tasks in parallel, one thread per lane."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from ..core import Waiting

Result = TypeVar("Result")


def run_parallel(tasks: Sequence[Callable[[], Result]]) -> list[Result | BaseException]:
    """Return each task's result or exception, in the order of the tasks. A single task runs in this thread.

    The threads are daemons: Ctrl-C must not wait minutes for a model's response.
    """
    if len(tasks) == 1:
        return [_outcome(tasks[0])]
    found: dict[int, Result | BaseException] = {}

    def run(number: int, task: Callable[[], Result]) -> None:
        found[number] = _outcome(task)

    threads = []
    for number, task in enumerate(tasks):
        context = contextvars.copy_context()
        threads.append(threading.Thread(target=context.run, args=(run, number, task), daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[number] for number in range(len(tasks))]


def raise_any(outcomes: Sequence[object]) -> None:
    """Raise a failure among the outcomes, if any; else `Waiting` for replies of persons that are missing."""
    errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    for error in errors:
        if not isinstance(error, Waiting):
            raise error
    if errors:
        raise Waiting("; ".join(dict.fromkeys(map(str, errors))))


def _outcome(task: Callable[[], Result]) -> Result | BaseException:
    try:
        return task()
    except BaseException as error:  # a thread has nobody to raise it to
        return error
