"""A Ray cluster as workers: an actor for every GPU, or for every node's CPU, replaced when it is lost."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...core import DeviceError
from ...core.text import first_line
from ..settings import Settings
from .evaluator import GivenUp, Lost, polled
from .payload import ANSWERS, Answer, Payload
from .ray_connection import connect, gpus_of, living_nodes
from .ray_worker import SETTINGS, RayWorker
from .worker_host import versions

POLL_S = 0.1
WAIT_S = 300.0
"""For a first worker to become ready: the cluster may be busy with other jobs, or still growing."""
NEWS_S = 1.0
"""How often the cluster is asked for its nodes, at most."""
FAILURES = 3
"""A place where so many actors in a row did not come up is given up."""
CLOSING_S = 5.0


@dataclass(frozen=True)
class Place:
    """Where an actor can work: a node, and which of its GPUs, counted."""

    node: str
    number: int
    cpus: int
    """Cores that it may use, those of its share of the node."""


@dataclass(eq=False)
class ActorSlot:
    """An actor and what it is doing."""

    place: Place
    actor: Any
    coming: Any
    """The reference to its first answer; None once it is warm."""
    busy: Any = None
    """The reference to the answer that it works at, whether or not anybody still waits for it."""


class RayCluster:
    """Implements `spread.Workers`. `device` is 'cuda' or 'cpu'; `wait_s` limits waiting for a worker.

    Raises `DeviceError` when the cluster cannot be reached or has no place for a worker.
    """

    def __init__(
        self, address: str | None, device: str | None = None, settings: Settings | None = None, wait_s: float = WAIT_S
    ) -> None:
        self._disconnect = connect(address)
        self.device = device or ("cuda" if any(gpus_of(node) for node in living_nodes()) else "cpu")
        self._settings = SETTINGS.dump_json(settings or Settings())
        self._wait_s = wait_s
        self._lock = threading.RLock()
        self._seats: list[ActorSlot] = []
        self._failures: Counter[Place] = Counter()
        """Of actors that did not come up, in a row."""
        self._reason = ""
        """Why the last of them did not."""
        self._asked_at = -math.inf
        self._fill_slots()
        if not self._seats:
            self.close()
            has = "GPU; use `device` cpu, or add a node that has one" if self.device == "cuda" else "node with CPUs"
            raise DeviceError(f"the Ray cluster has no {has}")

    def open(self) -> None:
        """See `spread.Workers`: the actors start by themselves."""

    def count(self) -> int:
        """The actors there are, at least one: those that still start take what they are given when they are ready."""
        return max(1, len(self._seats))

    @property
    def cpus(self) -> int:
        """Cores that every worker has."""
        return min((seat.place.cpus for seat in self._seats), default=1)

    def run(self, payload: Payload, given_up: threading.Event) -> list[Answer]:
        """See `spread.Workers`."""
        import ray

        seat, answer = self._give(payload, given_up)
        try:
            for _ in polled(0.0, given_up):
                with contextlib.suppress(ray.exceptions.GetTimeoutError):
                    return ANSWERS.validate_json(ray.get(answer, timeout=POLL_S))
            raise GivenUp
        except ray.exceptions.RayTaskError:
            raise  # a bug of ours
        except ray.exceptions.RayError as error:
            self._stop(seat)
            raise Lost(f"the worker on node {seat.place.node[:8]} was lost: {first_line(error)}") from None

    def close(self) -> None:
        """End all actors and what they started, and leave the cluster."""
        import ray

        with self._lock:
            seats, self._seats = self._seats, []
        idle = [seat for seat in seats if seat.coming is None and seat.busy is None]
        with contextlib.suppress(Exception):  # whoever does not close in time is killed
            ray.wait([seat.actor.close.remote() for seat in idle], num_returns=len(idle), timeout=CLOSING_S)
        for seat in seats:
            _kill(seat)
        self._disconnect()

    def _give(self, payload: Payload, given_up: threading.Event) -> tuple[ActorSlot, Any]:
        """Hand the payload to the first actor that is ready and free."""
        text = payload.model_dump_json()
        deadline = time.monotonic() + self._wait_s
        for _ in polled(POLL_S, given_up):
            with self._lock:
                self._look()
                if (seat := next((one for one in self._seats if not one.coming and not one.busy), None)) is not None:
                    seat.busy = seat.actor.run.remote(text)
                    return seat, seat.busy
                if any(seat.busy for seat in self._seats):
                    deadline = time.monotonic() + self._wait_s
            if time.monotonic() > deadline:
                raise DeviceError(
                    f"no worker of the Ray cluster became free in {self._wait_s:g} s; 'ray status' shows what holds it"
                )
        raise GivenUp

    def _look(self) -> None:
        """Note who is ready and who has ended what nobody waits for; fill the places that are empty."""
        import ray

        for seat in list(self._seats):
            if seat.coming is not None and _done(seat.coming):
                try:
                    check_versions(ray.get(seat.coming))
                    seat.coming = None
                    self._failures[seat.place] = 0
                except ray.exceptions.RayError as error:
                    self._failures[seat.place] += 1
                    self._reason = _why(error)
                    self._stop(seat)
            if seat.busy is not None and _done(seat.busy):
                seat.busy = None
        self._fill_slots()

    def _fill_slots(self) -> None:
        """An actor for every place of the living nodes that has none."""
        now = time.monotonic()
        if now - self._asked_at < NEWS_S:
            return
        self._asked_at = now
        nodes = living_nodes()
        living = {node["NodeID"] for node in nodes}
        for seat in [one for one in self._seats if one.place.node not in living]:
            self._stop(seat)
        places = [place for node in nodes for place in self._places(node)]
        taken = {seat.place for seat in self._seats}
        self._seats += [
            self._start(place) for place in places if place not in taken and self._failures[place] < FAILURES
        ]
        if places and not self._seats:
            raise DeviceError(f"no worker starts on the Ray cluster: {self._reason}")

    def _places(self, node: dict[str, Any]) -> Iterator[Place]:
        cpus = int(node["Resources"].get("CPU", 0))
        if self.device == "cuda":
            gpus = gpus_of(node)
            yield from (Place(node["NodeID"], number, max(1, cpus // gpus)) for number in range(gpus))
        elif cpus:
            # One for a machine: what runs beside a timing on the same cores spoils it.
            yield Place(node["NodeID"], 0, cpus)

    def _start(self, place: Place) -> ActorSlot:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        there = NodeAffinitySchedulingStrategy(place.node, soft=False)
        actor_class = ray.remote(max_restarts=0, max_task_retries=0)(RayWorker)
        gpus = 1 if self.device == "cuda" else 0
        actor: Any = actor_class.options(num_cpus=place.cpus, num_gpus=gpus, scheduling_strategy=there).remote(
            self.device
        )
        return ActorSlot(place, actor, actor.warm.remote(self._settings))

    def _stop(self, seat: ActorSlot) -> None:
        with self._lock:
            if seat in self._seats:
                self._seats.remove(seat)
        _kill(seat)


def _done(reference: Any) -> bool:
    import ray

    return bool(ray.wait([reference], timeout=0)[0])


def _kill(seat: ActorSlot) -> None:
    import ray

    with contextlib.suppress(Exception):  # it is gone already
        ray.kill(seat.actor, no_restart=True)


def check_versions(theirs: dict[str, str]) -> None:
    """Raise `DeviceError` for a node with another kernelwright: its payloads and its verdicts may be others."""
    ours = versions()
    if theirs != ours:
        what = "version" if theirs["version"] != ours["version"] else "source"
        raise DeviceError(
            f"a node of the Ray cluster has another {what} of kernelwright ({theirs[what]}) than this machine "
            f"({ours[what]}); install the same on every node"
        )


def _why(error: Exception) -> str:
    text = str(error)
    if "No module named 'kernelwright" in text:
        return f"its nodes have no kernelwright; pip install 'kernelwright[ray]=={versions()['version']}' on each"
    return first_line(error)
