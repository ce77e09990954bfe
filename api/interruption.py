"""SIGTERM, by which batch schedulers end a job, raises `KeyboardInterrupt`, so that workers and folders go too."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """End what is within by SIGTERM as Ctrl-C does; without effect outside of the main thread."""
    if threading.current_thread() is not threading.main_thread():  # only that one may set handlers
        yield
        return

    def interrupt(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not cut the cleaning up short
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
