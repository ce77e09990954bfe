"""The reference workers of the problems evaluated last."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from ...core import ProblemError, TorchProblem
from ..guards.read_integers import IntegerSets
from ..reference.client import ReferenceClient


class ReferenceClients:
    """At most one for each of the problems used last, `most` of them.

    `new` starts one; `place` writes the files that a problem reads at its sizes to where workers find them.
    """

    def __init__(self, new: Callable[[TorchProblem], ReferenceClient], place: Callable[[TorchProblem], object]) -> None:
        self.most = 1
        self._new, self._place = new, place
        self._clients: list[ReferenceClient] = []
        self._lock = threading.Lock()
        self.integers = IntegerSets()
        """Of all clients: one that is started again in the middle of a comparison goes on with the same."""

    def client(self, problem: TorchProblem) -> ReferenceClient:
        """Return the client for a problem.

        The worker of one that is given up goes on with the same problem at other sizes: opening a GPU takes a second.
        """
        with self._lock:
            known = next((item for item in self._clients if item.problem == problem), None)
            if known is not None:
                self._clients.remove(known)
                if known.alive:
                    self._clients.append(known)
                    return known
            given_up = [] if known is None else [known]
            while len(self._clients) >= self.most:
                given_up.append(self._clients.pop(0))
        client = next((moved for item in given_up if (moved := self._moved(item, problem)) is not None), None)
        for replaced in given_up:
            replaced.close()
        client = client or self._new(problem)
        client.integers = self.integers
        with self._lock:
            self._clients.append(client)
        return client

    def wait_ready(self) -> None:
        """Wait until all workers are ready, or have failed."""
        with self._lock:
            clients = list(self._clients)
        for client in clients:
            client.wait_ready()

    def forget(self, but_last: bool = False) -> None:
        """End all workers; or keep the last problem's, unless that reads more than its source, such as a package."""
        with self._lock:
            kept = [item for item in self._clients[-1:] if but_last and not _reads_files(item.problem)]
            ended = self._clients[: len(self._clients) - len(kept)]
            self._clients = kept
        for client in ended:
            client.close()

    def _moved(self, client: ReferenceClient, problem: TorchProblem) -> ReferenceClient | None:
        """Return a client for the problem with this one's worker; None where that worker cannot go on with it."""
        if not client.can_move_to(problem):
            return None
        self._place(problem)
        with contextlib.suppress(ProblemError):  # a new worker finds more free memory, or fails alike
            return client.moved_to(problem)
        return None


def _reads_files(problem: TorchProblem) -> bool:
    return bool(problem.package or problem.files_at(problem.sizes))
