"""The device's lock through the steps of an evaluation, some of which need no device."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ..reference.client import ReferenceClient
from ..workers.device_lock import DeviceLock


class DeviceAccess:
    """One evaluator's exclusive access to its device."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._lock: DeviceLock | None = None

    @contextlib.contextmanager
    def exclusive(self, reference_client: ReferenceClient) -> Iterator[None]:
        """Wait for the device, and keep others waiting while inside."""
        self._lock = DeviceLock(reference_client.environment.get("uuid", self._device))
        with self._lock.held():
            yield

    def released(self) -> contextlib.AbstractContextManager[None]:
        """While inside, let others measure: for what compiles. Not on a CPU, which compilers use too."""
        if self._lock is None or self._device == "cpu" or not self._lock.is_held:
            return contextlib.nullcontext()
        return self._lock.released()
