"""Shares work among evaluators: a free evaluator takes the next item, and a failure stops all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from ...core import Evaluator
from ...core.events import CancelToken, RunCancelledError

T = TypeVar("T")


def share(
    items: Sequence[T], evaluators: Sequence[Evaluator], work: Callable[[Evaluator, T], None], cancel: CancelToken
) -> None:
    """Call `work` for every item, in the caller's thread for one evaluator, otherwise in a thread for each.

    An exception, also an interruption of the caller, cancels, and is raised when the others have ended or noticed.
    """
    left, lock, failures = iter(items), threading.Lock(), list[BaseException]()

    def run(evaluator: Evaluator) -> None:
        try:
            while not cancel.cancelled:
                with lock:
                    item = next(left, None)
                if item is None:
                    return
                work(evaluator, item)
        except RunCancelledError:
            return
        except BaseException as error:
            failures.append(error)
            cancel.cancel()

    if len(evaluators) == 1:
        run(evaluators[0])
    else:
        threads = [threading.Thread(target=run, args=(evaluator,), daemon=True) for evaluator in evaluators]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException:
            cancel.cancel()
            raise
    if failures:
        raise failures[0]
