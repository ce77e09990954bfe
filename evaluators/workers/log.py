"""The output of a worker: read as it comes, and only its end is kept, however much a worker prints."""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections.abc import Callable

from ...core.quotation import plain

KEPT_BYTES = 4096
MOST_BYTES = 64 << 20
"""Most bytes printed per request: more would be timed with the call, and keep this process busy."""
_PART_BYTES = 1 << 16
"""The default capacity of a pipe."""
_PARTS = 16
"""Reads per look at the log, while the worker keeps printing."""


class Log:
    """Reads from a pipe, which ends with the last process that could write to it; nothing is on the disk."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self.flooded = False
        """Whether more than `most` bytes were printed since `begin`."""
        self.stop: Callable[[], object] = lambda: None
        """Called once then."""
        self._most, self._printed = most, 0
        self._source, self.sink = os.pipe()
        """The end to write to; `given` closes it here."""
        self._end = b""
        self._lock = threading.Lock()
        threading.Thread(target=self._follow, name="log", daemon=True).start()

    def begin(self) -> None:
        """Count what is printed from now on: a request begins."""
        self._printed = 0

    def given(self) -> None:
        """Close this process's end to write to: a worker has it, or none was started."""
        os.close(self.sink)

    @property
    def text(self) -> str:
        """The end of what was printed until now."""
        with self._lock:
            for _ in range(_PARTS):
                if self._source < 0 or not _ready(self._source, 0) or not self._read():
                    break
            return plain(self._end.decode(errors="replace")).strip()

    def _follow(self) -> None:
        while _ready(self._source, None):
            with self._lock:
                if _ready(self._source, 0) and not self._read():
                    os.close(self._source)
                    self._source = -1
                    return

    def _read(self) -> bool:
        """Read what is there; return whether there may be more."""
        part = b""
        with contextlib.suppress(OSError):
            part = os.read(self._source, _PART_BYTES)
        self._end = (self._end + part)[-KEPT_BYTES:]
        self._printed += len(part)
        if self._printed > self._most and not self.flooded:
            self.flooded = True
            self.stop()
        return bool(part)


def _ready(source: int, timeout_ms: int | None) -> bool:
    there = select.poll()
    there.register(source, select.POLLIN)
    return bool(there.poll(timeout_ms))
