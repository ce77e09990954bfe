"""The process on a node of a Ray cluster: one warm evaluator on the CPU or on the GPU that Ray gave it."""

from __future__ import annotations

from pydantic import TypeAdapter

from ..limits import Settings
from .payload import ANSWERS, Payload
from .station import Station

SETTINGS = TypeAdapter(Settings)


class RayWorker:
    """An actor's methods; text in, text out, so that an answer never runs code where it is read."""

    def __init__(self, device: str) -> None:
        # Ray shows it one GPU only, so 'cuda' is that one.
        self._station = Station(device)

    def warm(self, settings: bytes) -> dict[str, str]:
        """See `Station.warm`."""
        return self._station.warm(SETTINGS.validate_json(settings))

    def run(self, payload: str) -> bytes:
        """See `Station.run`."""
        return ANSWERS.dump_json(self._station.run(Payload.model_validate_json(payload)))

    def close(self) -> None:
        """End its processes."""
        self._station.close()
