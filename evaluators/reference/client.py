"""The client of the reference worker. A failure of the reference is the problem's fault."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from ...core import ProblemError, TorchProblem
from ...core.generated_code import GeneratedCode
from ..settings import Convolutions
from ..timing.hidden_work import IdleDevice
from ..workers.channel import Message
from ..workers.client import Worker, WorkerDied, WorkerTimeout
from ..workers.memory import LARGE

TIMEOUT_S = 600.0
"""Seconds. The reference is trusted; this only ends an endless wait."""
COMPILING = ("compile_ahead", "compile", "generate_ahead", "generate")
"""Requests after which torch's compiler has a memory, on which what it makes for other sizes may depend."""


class ReferenceClient:
    """The reference of one problem, ready to give weights, to compare and to be timed.

    Raises `ProblemError` when the reference itself fails.
    """

    def __init__(self, problem: TorchProblem, worker: Worker) -> None:
        self.problem = problem
        self._worker = worker
        self._moved = self._compiled = False
        opened = self.call("open")
        self.environment: dict[str, str] = opened["environment"]
        self.arithmetic: dict[str, Any] = opened["arithmetic"]
        """The fields of evaluations that say how the reference computes: precision, default_is_reference."""
        self.effects: dict[str, list[int]] = {name: opened[name] for name in ("changed", "returned", "shared")}
        """Indices of the inputs that the reference itself writes to, or returns."""
        self.tensor_bytes: int = opened["tensor_bytes"]
        """Of inputs, weights and outputs."""
        self.has_large_inputs: bool = opened["input_bytes"] > LARGE
        """Whether inputs are drawn again rather than kept."""
        self.written_weights = frozenset[str](opened["weights"])
        """The weights that the reference itself writes to: those of a normalization that keeps running statistics."""

    def call(self, op: str, **arguments: Any) -> Message:
        """Send a request to the reference worker and return its response."""
        self._compiled = self._compiled or op in COMPILING
        try:
            answer = self._ask(TIMEOUT_S, op, **arguments)
        except WorkerTimeout:
            raise ProblemError(f"the reference of {self.problem.id} did not end in {TIMEOUT_S:g} s") from None
        except WorkerDied as died:
            raise ProblemError(
                f"the reference of {self.problem.id} {died}; its last output: "
                f"{self._worker.log.splitlines()[-1:] or 'none (out of memory? `workload` sets smaller sizes)'}"
            ) from None
        if not answer["ok"]:
            self.close()
            reason = " ".join(answer["error"].split())
            raise ProblemError(f"the reference of {self.problem.id} fails: {reason}")
        return answer

    def _ask(self, seconds: float, op: str, **arguments: Any) -> Message:
        if self._moved:
            raise WorkerDied(None, "serves other sizes now")
        return self._worker.call(seconds, op=op, **arguments)

    def release(self) -> None:
        """Let the worker free what it can draw again, where that is large."""
        self.call("release")

    def rehearse(self) -> None:
        """Run the steps that use the most memory, without a candidate. Raises `ProblemError`."""
        _ = self.distributions
        self.call("time", samples=1, seed=0, graph=False)

    @cached_property
    def distributions(self) -> tuple[str, ...]:
        """The input distributions, besides the problem's own, that the reference supports."""
        return tuple(self.call("distributions")["distributions"])

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """The further inputs for which the reference has definite results, and on which a kernel may differ."""
        return tuple(self.call("remarks")["distributions"])

    @cached_property
    def counted(self) -> Message:
        """The reference's operations and bytes."""
        return self.call("count")

    @cached_property
    def idle(self) -> IdleDevice:
        """What an empty call takes on this device."""

        def measure() -> float:
            return float(self.call("empty")["empty_ms"])

        return IdleDevice(measure(), measure)

    @cached_property
    def properties(self) -> Message | None:
        """Torch's properties of the GPU; None for a CPU."""
        found: Message | None = self.call("properties")["properties"]
        return found

    def generate_ahead(self, convolutions: Convolutions) -> None:
        """Let torch's compiler do the part of `generate` in which it measures nothing."""
        self.call("generate_ahead", convolutions=convolutions.value)

    def generate(self, convolutions: Convolutions) -> GeneratedCode | str:
        """Return what torch's compiler makes of the reference, or why it makes nothing."""
        answer = self.call("generate", convolutions=convolutions.value)
        return str(answer["obstacle"]) if answer["obstacle"] else GeneratedCode.model_validate(answer["code"])

    def timer(self, seeds: Iterator[int], graph: bool) -> Callable[[int], Message]:
        """Return a timer of the reference, each chunk on the next seed's inputs."""
        return lambda samples: self.call("time", samples=samples, seed=next(seeds), graph=graph)

    def baseline_timer(self, name: str, seeds: Iterator[int], graph: bool) -> Callable[[int], Message]:
        """Return a timer of the reference as PyTorch runs it by default, or as it was compiled under this name."""
        return lambda samples: self.call("time_baseline", name=name, samples=samples, seed=next(seeds), graph=graph)

    @contextlib.contextmanager
    def at(self, sizes: Mapping[str, Any]) -> Iterator[None]:
        """Use the same problem at other sizes within the context."""
        self.call("resize", sizes=dict(sizes))
        try:
            yield
        finally:
            if self.alive:
                self.call("resize", sizes=dict(self.problem.sizes))

    def can_move_to(self, problem: TorchProblem) -> bool:
        """Whether the worker can go on with a problem: the same one at any sizes, if torch has not compiled it."""
        same = replace(self.problem, workload=problem.workload, sizes=problem.sizes) == problem
        return same and self.alive and not self._compiled

    def moved_to(self, problem: TorchProblem) -> ReferenceClient:
        """Return a client for the same problem at other sizes, to which the worker goes over from this one."""
        self.call("move", sizes=dict(problem.sizes))
        self._moved = True
        return ReferenceClient(problem, self._worker)

    @property
    def pid(self) -> int:
        """The id of the worker's process."""
        return self._worker.pid

    @property
    def alive(self) -> bool:
        """Whether the worker can take requests."""
        return not self._moved and self._worker.alive

    def close(self) -> None:
        """End the worker and remove its files; no effect when it has moved."""
        if not self._moved:
            self._worker.end()
