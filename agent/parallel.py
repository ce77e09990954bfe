"""Runs tasks in parallel, one thread per lane, and shares results that several of them need."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

from ..core import ReplyPendingError

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
    """Raise the first failure among the outcomes, otherwise `ReplyPendingError` if replies of persons are missing."""
    errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    for error in errors:
        if not isinstance(error, ReplyPendingError):
            raise error
    if errors:
        raise ReplyPendingError("; ".join(dict.fromkeys(map(str, errors))))


def _outcome(task: Callable[[], Result]) -> Result | BaseException:
    try:
        return task()
    except BaseException as error:  # a thread has nobody to raise it to
        return error


class SingleFlight(Generic[Result]):
    """Results by name. The first thread that asks for a result makes it, and the others wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[str, Future[Result]] = {}

    def names(self) -> set[str]:
        """Return the result, waiting for it if another thread makes it."""
        with self._lock:
            return {*self._made}

    def forget(self, name: str) -> None:
        """Let the next thread that asks make the result anew."""
        with self._lock:
            self._made.pop(name, None)

    def get(self, name: str, make: Callable[[], Result], again: bool = False) -> Result:
        """Return the result; `again` makes it anew. A failure is raised in all that wait, and not kept."""
        with self._lock:
            pending = self._made.get(name)
            if mine := pending is None or again:
                pending = self._made[name] = Future()
        assert pending is not None
        if mine:
            try:
                pending.set_result(make())
            except BaseException as error:
                with self._lock:
                    del self._made[name]
                pending.set_exception(error)
        return pending.result()
