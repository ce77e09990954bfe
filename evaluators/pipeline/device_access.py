"""The device's lock through the steps of an evaluation: checks share the device, measurements have it alone."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ..reference.client import ReferenceClient
from ..workers.device_lock import DeviceLock

SHARES = 64
"""Checks share a GPU with this many times the memory of inputs, weights and outputs. A check takes up to eight times
theirs, and more where the reference has large tensors in between."""


class DeviceAccess:
    """One evaluator's access to its device."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._lock: DeviceLock | None = None
        self.began_shared = False
        """Whether others could check beside what came before the timing."""

    @contextlib.contextmanager
    def exclusive(self, reference_client: ReferenceClient) -> Iterator[None]:
        """Wait for the device, and keep others waiting while inside."""
        self.began_shared = False
        with self._lock_of(reference_client).held():
            yield

    @contextlib.contextmanager
    def shared(self, reference_client: ReferenceClient) -> Iterator[None]:
        """Wait until nobody measures on the device; others may check meanwhile, where the memory is enough for that.

        On a CPU as `exclusive`: checks use many cores, and what comes first in a search would wait the longest.
        """
        properties = reference_client.properties if self._device != "cpu" else None
        room = properties["total_memory"] if properties else 0
        self.began_shared = room > SHARES * reference_client.tensor_bytes
        with self._lock_of(reference_client).held(self.began_shared):
            yield

    def is_free(self, reference_client: ReferenceClient) -> bool:
        """Return whether nobody is on the device now, or waits for it."""
        return DeviceLock(self._name(reference_client)).is_free

    def alone(self) -> contextlib.AbstractContextManager[None]:
        """Within either: nobody else uses the device while inside."""
        return self._lock.alone() if self._lock is not None and self._lock.is_shared else contextlib.nullcontext()

    def share_no_longer(self) -> None:
        """Within either: nobody else uses the device from now on. Whoever is almost done need not wait again."""
        if self._lock is not None and self._lock.is_shared:
            self._lock.share_no_longer()

    def give_way(self) -> None:
        """Between two steps of a check: let those go first who wait to measure."""
        if self._lock is not None:
            self._lock.give_way()

    def released(self) -> contextlib.AbstractContextManager[None]:
        """While inside, let others measure: for what compiles. Not on a CPU, which compilers use too."""
        if self._lock is None or self._device == "cpu" or not self._lock.is_held:
            return contextlib.nullcontext()
        return self._lock.released()

    def _lock_of(self, reference_client: ReferenceClient) -> DeviceLock:
        self._lock = DeviceLock(self._name(reference_client))
        return self._lock

    def _name(self, reference_client: ReferenceClient) -> str:
        return reference_client.environment.get("uuid", self._device)
