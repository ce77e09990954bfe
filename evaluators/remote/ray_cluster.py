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
from .options import AUTO, CUDA, RemoteOptions
from .payload import RESPONSES, Payload, Response
from .ray_connection import connect, gpus_of, living_nodes
from .ray_worker import SETTINGS, RayWorker
from .worker_host import versions
from .workers import PayloadCancelledError, WorkerLostError, polled

POLL_S = 0.1
WAIT_S = 300.0
"""Seconds for a first worker to become ready: the cluster may be busy with other jobs, or still growing."""
NEWS_S = 1.0
"""Seconds between two requests for the cluster's nodes, at least."""
FAILURES = 3
"""After this many actors that failed to start in a row, the place is given up."""
CLOSING_S = 5.0


@dataclass(frozen=True)
class ActorPlace:
    """A place for an actor: a node, and the index of its GPU."""

    node: str
    number: int
    cpus: int
    """Cores that it may use: its share of the node."""


@dataclass(eq=False)
class ActorSlot:
    """An actor and its current work."""

    place: ActorPlace
    actor: Any
    coming: Any
    """Reference to its first response; None once it is warm."""
    busy: Any = None
    """Reference to the response in work, even if its caller has stopped waiting."""


def start(options: RemoteOptions, settings: Settings) -> RayCluster:
    """Join the cluster. Raises `DeviceError` as `RayCluster`."""
    return RayCluster(options.ray_address, None if options.device == AUTO else options.device, settings)


class RayCluster:
    """Implements `Workers`. `device` is 'cuda' or 'cpu'; `wait_s` limits the wait for a worker.

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
        self._slots: list[ActorSlot] = []
        self._failures: Counter[ActorPlace] = Counter()
        """Number of actors in a row that failed to start."""
        self._reason = ""
        """The last one's error."""
        self._asked_at = -math.inf
        self._fill_slots()
        if not self._slots:
            self.close()
            has = "GPU; use `device` cpu, or add a node that has one" if self.device == "cuda" else "node with CPUs"
            raise DeviceError(f"the Ray cluster has no {has}")

    @property
    def label(self) -> str:
        """'Ray GPUs'."""
        return f"Ray {'GPUs' if self.device == CUDA else 'CPUs'}"

    def check(self) -> None:
        """See `Workers`: joining has shown it."""

    def open(self) -> None:
        """See `Workers`: the actors start by themselves."""

    def count(self) -> int:
        """Return the number of actors, at least one: one that still starts takes its payload when it is ready."""
        return max(1, len(self._slots))

    @property
    def cpus(self) -> int:
        """Return the cores that every worker has."""
        return min((slot.place.cpus for slot in self._slots), default=1)

    def run(self, payload: Payload, given_up: threading.Event) -> list[Response]:
        """See `Workers`."""
        import ray

        slot, response = self._give(payload, given_up)
        try:
            for _ in polled(0.0, given_up):
                with contextlib.suppress(ray.exceptions.GetTimeoutError):
                    return RESPONSES.validate_json(ray.get(response, timeout=POLL_S))
            raise PayloadCancelledError
        except ray.exceptions.RayTaskError:
            raise  # a bug of ours
        except ray.exceptions.RayError as error:
            self._stop(slot)
            raise WorkerLostError(f"the worker on node {slot.place.node[:8]} was lost: {first_line(error)}") from None

    def close(self) -> None:
        """End all actors and their processes, and leave the cluster."""
        import ray

        with self._lock:
            slots, self._slots = self._slots, []
        idle = [slot for slot in slots if slot.coming is None and slot.busy is None]
        with contextlib.suppress(Exception):  # an actor that does not close in time is killed
            ray.wait([slot.actor.close.remote() for slot in idle], num_returns=len(idle), timeout=CLOSING_S)
        for slot in slots:
            _kill(slot)
        self._disconnect()

    def _give(self, payload: Payload, given_up: threading.Event) -> tuple[ActorSlot, Any]:
        """Give the payload to the first actor that is ready and free."""
        text = payload.model_dump_json()
        deadline = time.monotonic() + self._wait_s
        for _ in polled(POLL_S, given_up):
            with self._lock:
                self._look()
                if (
                    slot := next((item for item in self._slots if not item.coming and not item.busy), None)
                ) is not None:
                    slot.busy = slot.actor.run.remote(text)
                    return slot, slot.busy
                if any(slot.busy for slot in self._slots):
                    deadline = time.monotonic() + self._wait_s
            if time.monotonic() > deadline:
                raise DeviceError(
                    f"no worker of the Ray cluster became free in {self._wait_s:g} s; 'ray status' shows what holds it"
                )
        raise PayloadCancelledError

    def _look(self) -> None:
        """Note which actors are ready and which have ended abandoned work; fill empty places."""
        import ray

        for slot in list(self._slots):
            if slot.coming is not None and _done(slot.coming):
                try:
                    check_versions(ray.get(slot.coming))
                    slot.coming = None
                    self._failures[slot.place] = 0
                except ray.exceptions.RayError as error:
                    self._failures[slot.place] += 1
                    self._reason = _why(error)
                    self._stop(slot)
            if slot.busy is not None and _done(slot.busy):
                slot.busy = None
        self._fill_slots()

    def _fill_slots(self) -> None:
        """Start an actor for every place of the living nodes that has none."""
        now = time.monotonic()
        if now - self._asked_at < NEWS_S:
            return
        self._asked_at = now
        nodes = living_nodes()
        living = {node["NodeID"] for node in nodes}
        for slot in [item for item in self._slots if item.place.node not in living]:
            self._stop(slot)
        places = [place for node in nodes for place in self._places(node)]
        taken = {slot.place for slot in self._slots}
        self._slots += [
            self._start(place) for place in places if place not in taken and self._failures[place] < FAILURES
        ]
        if places and not self._slots:
            raise DeviceError(f"no worker starts on the Ray cluster: {self._reason}")

    def _places(self, node: dict[str, Any]) -> Iterator[ActorPlace]:
        cpus = int(node["Resources"].get("CPU", 0))
        if self.device == "cuda":
            gpus = gpus_of(node)
            yield from (ActorPlace(node["NodeID"], number, max(1, cpus // gpus)) for number in range(gpus))
        elif cpus:
            # One per machine: other work on the same cores disturbs a timing.
            yield ActorPlace(node["NodeID"], 0, cpus)

    def _start(self, place: ActorPlace) -> ActorSlot:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        there = NodeAffinitySchedulingStrategy(place.node, soft=False)
        actor_class = ray.remote(max_restarts=0, max_task_retries=0)(RayWorker)
        gpus = 1 if self.device == "cuda" else 0
        actor: Any = actor_class.options(num_cpus=place.cpus, num_gpus=gpus, scheduling_strategy=there).remote(
            self.device
        )
        return ActorSlot(place, actor, actor.warm.remote(self._settings))

    def _stop(self, slot: ActorSlot) -> None:
        with self._lock:
            if slot in self._slots:
                self._slots.remove(slot)
        _kill(slot)


def _done(reference: Any) -> bool:
    import ray

    return bool(ray.wait([reference], timeout=0)[0])


def _kill(slot: ActorSlot) -> None:
    import ray

    with contextlib.suppress(Exception):  # it is gone already
        ray.kill(slot.actor, no_restart=True)


def check_versions(theirs: dict[str, str]) -> None:
    """Raise `DeviceError` for a node with another kernelwright: its payloads and results may differ."""
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
