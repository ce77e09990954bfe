"""Interruption of a command, which also ends its workers and removes its folders.

SIGTERM, by which batch schedulers end a job, and SIGHUP, which a closed terminal sends, raise `KeyboardInterrupt`
as Ctrl-C does; one that Python loses is raised again.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator

_ENDING = (signal.SIGTERM, signal.SIGHUP)
AGAIN_S = 0.05
"""Seconds until a lost interruption is raised again."""


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM and SIGHUP interrupt the block as Ctrl-C does. It has no effect outside of the main thread.

    A SIGHUP that is ignored, as by `nohup`, stays so.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set handlers
        yield
        return

    def interrupt(*_: object) -> None:
        for number in before:
            signal.signal(number, signal.SIG_IGN)  # a second signal must not interrupt the cleanup
        raise KeyboardInterrupt

    heeded = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in heeded}
    try:
        with _none_lost():
            yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _none_lost() -> Iterator[None]:
    """Raise a `KeyboardInterrupt` again if it came in a finalizer or in a weak reference's callback.

    Python only reports these. Each import has such callbacks.
    """
    hook, timers = sys.unraisablehook, list[threading.Timer]()

    def raise_again(lost: sys.UnraisableHookArgs) -> None:
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            hook(lost)
            return
        # A signal of its own, since the main thread would otherwise finish waiting first.
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
