"""A candidate with its reference, and the state that all steps of their comparison need."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping

from ..candidate.client import CandidateClient
from ..candidate.verified import rejected
from ..guards.own_kernels import launches_nothing
from ..reference.client import ReferenceClient
from ..settings import AllowTorch, Settings
from .device_access import DeviceAccess

CHUNKS_PER_SEED = 8
"""On a CPU, where drawing inputs is slow, this many chunks of samples share a seed."""


class EvaluationContext:
    """Both processes through their clients.

    `draw` gives seeds, `stages` collects the seconds of each step; a search is `quick`.
    """

    def __init__(
        self,
        reference_client: ReferenceClient,
        client: CandidateClient,
        settings: Settings,
        device: str,
        draw: Callable[[], int],
        access: DeviceAccess,
        quick: bool = False,
    ) -> None:
        self.reference_client = reference_client
        self.client = client
        self.settings = settings
        self.on_cpu = device == "cpu"
        self.draw = draw
        self.access = access
        self.quick = quick
        self.stages: dict[str, float] = {}

    @property
    def allow_torch(self) -> AllowTorch:
        """Which of torch's operators the candidate may call."""
        return self.settings.torch_for(self.reference_client.problem)

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the seconds spent inside to a stage of the evaluation; before it, others that wait to measure do."""
        self.access.yield_to_waiter()
        start = time.perf_counter()
        try:
            yield
        finally:
            self.stages[name] = self.stages.get(name, 0.0) + time.perf_counter() - start

    def release(self) -> None:
        """End a phase: both processes free large tensors that they can draw again; a new one would have none."""
        if not self.on_cpu:
            if self.client.alive:
                self.client.release()
            self.reference_client.release()

    def require_launches(self, launches: Mapping[str, int]) -> None:
        """Raise `CandidateError` for a user's function that launches nothing, which torch's share need not explain."""
        own = self.reference_client.problem.package is not None and self.allow_torch is not AllowTorch.ALL
        if own and not sum(launches.values()):
            kernel = self.client.kernel
            raise rejected(launches_nothing(kernel.name, kernel.language))

    def warm_up(self) -> None:
        """Keep a GPU busy until its clocks have risen, for the reference and for the candidates timed with it."""
        if not self.on_cpu:
            self.reference_client.call("warm_up")

    def timing_seeds(self) -> Iterator[int]:
        """Yield seeds for the inputs of timed calls, one for each chunk."""
        for number in itertools.count():
            if number % (CHUNKS_PER_SEED if self.on_cpu else 1) == 0:
                seed = self.draw()
            yield seed
