"""Interface of workers on other machines: they run payloads, for any provider, and how that can fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from ..settings import Settings
from .options import RemoteOptions
from .payload import Payload, Response


class WorkerLostError(Exception):
    """A worker was lost with its payload; another may run it. The message says what happened."""


class PayloadTimeoutError(Exception):
    """A payload was stopped because it took too long; the message gives the time."""


class PayloadCancelledError(Exception):
    """The caller has stopped waiting for the response."""


class Workers(Protocol):
    """Runs payloads elsewhere; called from several threads at once."""

    @property
    def device(self) -> str:
        """'cuda' or 'cpu', as for kernels and backends."""
        ...

    @property
    def label(self) -> str:
        """The device's name in journals and in names of folders, such as 'Modal H100'."""
        ...

    @property
    def cpus(self) -> int:
        """The cores of a worker, on which it compiles."""
        ...

    def check(self) -> None:
        """Raise `DeviceError` for what would else show with the first payload, after files were moved."""
        ...

    def open(self) -> None:
        """Start what takes long, in the caller's thread: only that one receives a Ctrl-C."""
        ...

    def count(self) -> int:
        """Return how many payloads can run at once."""
        ...

    def run(self, payload: Payload, given_up: threading.Event) -> list[Response]:
        """Run the payload on one worker, as soon as one is free, and return its responses.

        There a `WorkerHost` runs it. Raises `WorkerLostError`, `PayloadTimeoutError`, and `PayloadCancelledError` soon
        after the event is set.
        """
        ...

    def close(self) -> None:
        """End them all."""
        ...


@dataclass(frozen=True)
class EvaluatorEntry:
    """Creates the workers of a command, for a name of the option `evaluator`."""

    start: Callable[[RemoteOptions, Settings], Workers]
    """Gets what the user chose, and settings with the limits of the longest evaluation. Raises `DeviceError`."""


def polled(seconds: float, given_up: threading.Event) -> Iterator[None]:
    """Yield at once, and then every `seconds`, until the caller gives up: then raise `PayloadCancelledError`."""
    while not given_up.is_set():
        yield
        given_up.wait(seconds)
    raise PayloadCancelledError
