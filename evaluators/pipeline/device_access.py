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
        """Whether others could run checks while the steps before the timing ran."""

    @contextlib.contextmanager
    def exclusive(self, reference_client: ReferenceClient) -> Iterator[None]:
        """Wait for the device, and keep others waiting while inside."""
        self.began_shared = False
        with self._lock_of(reference_client).held():
            yield

    @contextlib.contextmanager
    def shared(self, reference_client: ReferenceClient) -> Iterator[None]:
        """Wait until no process measures on the device; others may run checks meanwhile, if there is enough memory.

        On a CPU as `exclusive`: checks use many cores, and the first step of a search would wait the longest.
        """
        properties = reference_client.properties if self._device != "cpu" else None
        room = properties["total_memory"] if properties else 0
        self.began_shared = room > SHARES * reference_client.tensor_bytes
        with self._lock_of(reference_client).held(self.began_shared):
            yield

    def is_free(self, reference_client: ReferenceClient) -> bool:
        """Return whether the device is free, and no process waits for it."""
        return DeviceLock(self._name(reference_client)).is_free

    def upgraded(self) -> contextlib.AbstractContextManager[None]:
        """Within `shared` or `exclusive`: have the device alone while inside."""
        return self._lock.exclusive() if self._lock is not None and self._lock.is_shared else contextlib.nullcontext()

    def upgrade_to_exclusive(self) -> None:
        """Within either: from now on no other process uses the device. Whoever is almost done need not wait again."""
        if self._lock is not None and self._lock.is_shared:
            self._lock.upgrade_to_exclusive()

    def yield_to_waiter(self) -> None:
        """Between two steps of a check: let those go first who wait to measure."""
        if self._lock is not None:
            self._lock.yield_to_waiter()

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
