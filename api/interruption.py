"""How a command is interrupted, so that workers and folders go too.

SIGTERM, by which batch schedulers end a job, raises `KeyboardInterrupt` as Ctrl-C does; one that Python loses is raised
again.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator

AGAIN_S = 0.05
"""Until an interruption that was lost is raised again: not where it was lost, but soon."""


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """End what is within by SIGTERM as Ctrl-C does; without effect outside of the main thread."""
    if threading.current_thread() is not threading.main_thread():  # only that one may set handlers
        yield
        return

    def interrupt(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not cut the cleaning up short
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        with _none_lost():
            yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _none_lost() -> Iterator[None]:
    """Raise a `KeyboardInterrupt` again that came in a finalizer or in a weak reference's callback.

    Python only reports these. Each import has such callbacks.
    """
    hook, timers = sys.unraisablehook, list[threading.Timer]()

    def raise_again(lost: sys.UnraisableHookArgs) -> None:
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            hook(lost)
            return
        # A signal of its own: else the main thread would first end what it waits for.
        timers.append(threading.Timer(AGAIN_S, signal.pthread_kill, (threading.get_ident(), signal.SIGINT)))
        timers[-1].daemon = True
        timers[-1].start()

    sys.unraisablehook = raise_again
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for timer in timers:
            timer.cancel()
