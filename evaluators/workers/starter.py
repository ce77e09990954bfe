"""Starts the processes of servers from a thread that outlives the threads of its callers."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

Process = TypeVar("Process")
_Asked = queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]]


class Starter:
    """Starts processes from one thread, which lives as long as this process.

    A server is killed when its parent ends, and for Linux the parent is the thread that started it, not the process.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._asked: _Asked = queue.SimpleQueue()

    def start(self, command: Callable[[], Process]) -> Process:
        """Run `command` in that thread; return its result or raise its exception."""
        started: Future[Process] = Future()
        with self._lock:
            if self._thread is None or not self._thread.is_alive():  # a fork of this process does not have it
                self._asked = queue.SimpleQueue()
                self._thread = threading.Thread(target=_serve, args=(self._asked,), name="starter", daemon=True)
                self._thread.start()
            self._asked.put((command, started))
        return started.result()


STARTER = Starter()
"""Shared by all servers: its thread starts with the first and never ends."""


def _serve(asked: _Asked) -> None:
    while True:
        command, started = asked.get()
        try:
            started.set_result(command())
        except BaseException as error:  # raised again in the caller
            started.set_exception(error)
        del command, started  # must not be kept until the next request
