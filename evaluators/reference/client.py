"""This side of the judge: the reference's process, whose failures are the problem's fault."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

from ...core import ProblemError, TorchProblem
from ..workers.channel import Message
from ..workers.client import Worker, WorkerDied, WorkerTimeout

TIMEOUT_S = 600.0
"""The reference is trusted; this only ends a wait that would be for ever."""


class ReferenceClient:
    """The reference of one problem, ready to give weights, to compare and to be timed.

    Raises `ProblemError` when the reference itself fails.
    """

    def __init__(self, problem: TorchProblem, worker: Worker) -> None:
        self.problem = problem
        self._worker = worker
        opened = self.call("open")
        self.environment: dict[str, str] = opened["environment"]
        self.effects: dict[str, list[int]] = {name: opened[name] for name in ("changed", "returned")}
        """The numbers of the inputs that the reference itself writes to, or returns."""

    def call(self, op: str, **arguments: Any) -> Message:
        """Ask the judge's process."""
        try:
            answer = self._worker.call(TIMEOUT_S, op=op, **arguments)
        except WorkerTimeout:
            raise ProblemError(f"the reference of {self.problem.id} did not end in {TIMEOUT_S:g} s") from None
        except WorkerDied as died:
            raise ProblemError(
                f"the reference of {self.problem.id} {died}; its last words: "
                f"{self._worker.log.splitlines()[-1:] or 'none (out of memory? --workload sets smaller sizes)'}"
            ) from None
        if not answer["ok"]:
            self.close()
            reason = " ".join(answer["error"].split())
            raise ProblemError(f"the reference of {self.problem.id} fails: {reason}")
        return answer

    def rehearse(self) -> None:
        """Do what takes the most of the machine, with no candidate beside it. Raises `ProblemError`."""
        _ = self.distributions
        self.call("time", samples=1, seed=0, graph=False)

    @cached_property
    def distributions(self) -> tuple[str, ...]:
        """The distributions of inputs, beside the problem's own, with which the reference copes."""
        return tuple(self.call("distributions")["distributions"])

    @cached_property
    def counted(self) -> Message:
        """The reference's operations and bytes."""
        return self.call("count")

    @cached_property
    def empty_ms(self) -> float:
        """What a call that does nothing takes beyond what its events say."""
        return float(self.call("empty")["empty_ms"])

    @cached_property
    def properties(self) -> Message | None:
        """What torch says of the GPU; None for a CPU."""
        found: Message | None = self.call("properties")["properties"]
        return found

    def timer(self, seeds: Iterator[int], graph: bool) -> Callable[[int], Message]:
        """Times the reference, each chunk on the next seed's inputs."""
        return lambda samples: self.call("time", samples=samples, seed=next(seeds), graph=graph)

    def compiled_timer(self, name: str, seeds: Iterator[int], graph: bool) -> Callable[[int], Message]:
        """Times the reference as it was compiled under this name."""
        return lambda samples: self.call("time_compiled", name=name, samples=samples, seed=next(seeds), graph=graph)

    @contextlib.contextmanager
    def at(self, sizes: Mapping[str, Any]) -> Iterator[None]:
        """The same problem at other sizes for a while."""
        self.call("resize", sizes=dict(sizes))
        try:
            yield
        finally:
            if self.alive:
                self.call("resize", sizes=dict(self.problem.sizes))

    @property
    def pid(self) -> int:
        return self._worker.pid

    @property
    def alive(self) -> bool:
        return self._worker.alive

    def close(self) -> None:
        self._worker.end()
