"""Processes that outlive the evaluators that use them."""

from __future__ import annotations

import threading
from pathlib import Path

from ...core import DeviceError
from ..settings import Limits, Precision, Sandbox
from .processes import Processes

_Key = tuple[str, Limits, Sandbox, Path | None, Precision]


class KeptProcesses:
    """Lends processes to one evaluator at a time, and keeps them for the next one with the same settings.

    Evaluators that are open at the same time have processes of their own: as many are kept as were ever needed at
    once. May be used from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: dict[_Key, list[Processes]] = {}
        self._lent: dict[Processes, _Key] = {}
        self._closed = False

    def take(
        self, device: str, limits: Limits, sandbox: Sandbox, memory: Path | None, precision: Precision
    ) -> Processes:
        """Return processes, new ones where none are free; `give_back` has to follow.

        Raises `DeviceError` when closed.
        """
        key = (device, limits, sandbox, memory, precision)
        with self._lock:
            if self._closed:
                raise DeviceError("the session is closed", "open another one")
            free = self._free.get(key)
            processes = free.pop() if free else Processes(*key)
            self._lent[processes] = key
            return processes

    def give_back(self, processes: Processes, usable: bool) -> None:
        """Keep processes for the next evaluator; or end them, since they are not `usable` after an exception."""
        if usable:
            processes.rest()
        with self._lock:
            key = self._lent.pop(processes)
            kept = usable and not self._closed
            if kept:
                self._free.setdefault(key, []).append(processes)
        if not kept:
            processes.close()

    def close(self) -> None:
        """End what is free now, and what is lent when it is given back."""
        with self._lock:
            self._closed = True
            free = [processes for several in self._free.values() for processes in several]
            self._free.clear()
        for processes in free:
            processes.close()
