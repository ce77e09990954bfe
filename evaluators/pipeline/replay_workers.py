"""The processes that execute launch plans: one is started ahead, and those that ended are removed later."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from ...core import Language
from ..candidate.process import OPENS_S
from ..languages.helpers import copy_helpers
from ..workers.client import ServerEndedError, Worker, WorkerDiedError, WorkerTimeoutError


class ReplayWorkerPool:
    """Starts and ends them. `languages` are those that a new one imports, by module, as they are at that time.

    On a GPU a worker takes a second until it can execute anything, so `expect` starts the next one ahead. `helpers` is
    the folder of what trusted workers have compiled that launches kernels; `later` does work in the background.
    """

    def __init__(
        self,
        new_worker: Callable[[], Worker],
        languages: Mapping[str, Language],
        device: str,
        helpers: Path,
        later: Callable[[Callable[[], object]], None],
    ) -> None:
        self._new_worker = new_worker
        self._languages = languages
        self._on_gpu = device != "cpu"
        self._helpers = helpers
        self._later = later
        self._discarding = threading.Lock()
        self._retired: list[Worker] = []
        self._spare: tuple[tuple[str, ...], Worker] | None = None  # the languages that it imports, and the worker

    def replay_worker(self) -> Worker:
        """Return the one that was started ahead, or a new one."""
        if self._spare is not None and self._spare[0] == tuple(self._languages) and self._is_usable(self._spare[1]):
            (_, worker), self._spare = self._spare, None
            return worker
        self.discard_spare()
        return self._new_worker()

    def wait(self) -> None:
        """Wait until the one that was started ahead has opened its device, which would disturb what is measured."""
        if self._spare is not None and not self._is_usable(self._spare[1]):
            self.discard_spare()

    def discard_spare(self) -> None:
        """End the one that was started ahead, if there is one."""
        spare, self._spare = self._spare, None
        if spare is not None:
            spare[1].discard()

    def expect(self) -> None:
        """Start the next one, on a GPU, unless it is there."""
        self._later(partial(self._discard_retired, most=1))
        if self._on_gpu and self._spare is None:
            self._spare = tuple(self._languages), self._new_worker()

    def help_worker(self, worker: Worker) -> None:
        """Give a worker what was compiled since it started that launches kernels; it has run nothing yet."""
        if self._on_gpu:
            copy_helpers(self._helpers, worker.folder / "cache")

    def retire(self, worker: Worker) -> None:
        """Kill a worker: what it held on a GPU is freed while other things are done."""
        worker.kill()
        self._retired.append(worker)

    def close(self) -> None:
        """End all of them and remove their files."""
        self._discard_retired()
        self.discard_spare()

    def _discard_retired(self, most: int = 0) -> None:
        """Remove what retired workers left, but of the last ones: they may not have ended."""
        with self._discarding:
            while len(self._retired) > most:
                self._retired.pop(0).discard()

    def _is_usable(self, worker: Worker) -> bool:
        """Return whether a worker could open its device, once it has tried: another may have had all its memory."""
        if not (worker.alive and worker.runs):
            return False
        try:
            return worker.call(OPENS_S, op="ready").get("ready") is True
        except (WorkerDiedError, WorkerTimeoutError, ServerEndedError):
            return False
