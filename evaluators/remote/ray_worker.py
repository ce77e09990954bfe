"""The process on a node of a Ray cluster: one warm evaluator on the CPU or on the GPU that Ray gave it."""

from __future__ import annotations

from pydantic import TypeAdapter

from ..settings import Settings
from .payload import RESPONSES, Payload
from .worker_host import WorkerHost

SETTINGS = TypeAdapter(Settings)


class RayWorker:
    """An actor's methods; text in, text out, so that reading a response never runs its code."""

    def __init__(self, device: str) -> None:
        # Ray shows it one GPU only, which is 'cuda' here.
        self._host = WorkerHost(device)

    def warm(self, settings: bytes) -> dict[str, str]:
        """See `WorkerHost.warm`."""
        return self._host.warm(SETTINGS.validate_json(settings))

    def run(self, payload: str) -> bytes:
        """See `WorkerHost.run`."""
        return RESPONSES.dump_json(self._host.run(Payload.model_validate_json(payload)))

    def close(self) -> None:
        """End its processes."""
        self._host.close()
