"""The client of the process that executes a candidate's launch plans.

That process has neither the reference nor a seed. It receives inputs and weights, makes a batch of calls on them, and
hands over the outputs of some.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from ...core import Status
from ...core.text import first_line
from ..guards.measured_share import TorchOperator
from ..guards.torch_share import Operator
from ..replay.constants import MAX_CONSTANT_BYTES
from ..replay.saved import TOO_LARGE, call_bytes, constant_bytes, packing_bytes
from ..sandbox.untrusted_files import read_untrusted_file
from ..settings import Limits
from ..workers.channel import Message
from ..workers.client import Worker
from .process import CandidateProcess
from .responses import BatchOutputs, BatchResponse, HeldSteps, LoadedPlan, PreparedBatch, Response, StepsResponse
from .verified import CandidateError, RecordedPlan

_SUBJECT = "the process that replayed its launches"


class ReplayWorkers(Protocol):
    """Starts and ends the processes that execute launch plans."""

    def replay_worker(self) -> Worker:
        """Return a new one."""

    def help_worker(self, worker: Worker) -> None:
        """Give it what trusted workers have compiled since it started that launches kernels."""

    def retire(self, worker: Worker) -> None:
        """End it."""


class PlanProcess(CandidateProcess):
    """Plans of one kernel, by the serial numbers of its configs.

    Methods raise `CandidateError`, which ends the process.

    `share` passes tensors as device memory, and falls back to files where that cannot be opened.
    """

    runs_foreign_code = False  # what is compiled from a plan makes no calls of the system

    def __init__(self, workers: ReplayWorkers, limits: Limits, share: bool) -> None:
        super().__init__(workers.replay_worker, limits)
        self._workers = workers
        self._share = share
        self._bytes: dict[int, int] = {}
        self._recorded: dict[int, RecordedPlan] = {}
        self._prepared: int | None = None
        self._remembering: set[int] = set()
        self._packing_bytes: dict[int, int] = {}
        self._weights: tuple[int, str | None] | None = None  # those that the process has
        self._inputs: int | None = None  # the seed of those that it has, for timed calls

    def load(self, number: int, recorded: RecordedPlan) -> str | None:
        """Hand over a plan, to be checked and compiled; return why it cannot be replayed, or None."""
        plan = self.write(f"plan_{number}.json", recorded.plan.model_dump_json(), keep=True)
        constants = self.worker.inbox / f"constants_{number}.bin"
        if (size := constant_bytes(recorded.plan)) > MAX_CONSTANT_BYTES:
            return TOO_LARGE
        try:
            constants.write_bytes(read_untrusted_file(recorded.path, size) if size else b"")
        except OSError:
            return "a plan without its constants"
        self._bytes[number] = call_bytes(recorded.plan)
        if recorded.plan.packing is not None:
            self._packing_bytes[number] = packing_bytes(recorded.plan.packing)
        self._workers.help_worker(self.worker)
        request = {"plan": str(plan), "constants": recorded.constants, "path": str(constants)}
        self._recorded[number] = replace(recorded, path=constants)
        return self.ask(LoadedPlan, self._limits.compile_s, "load_plan", number=number, **request).reason

    def recorded(self, number: int) -> RecordedPlan:
        """Return a plan that was handed over; its constants are there until the process is closed."""
        return self._recorded[number]

    def bytes_of(self, number: int) -> int:
        """Return what a call of a plan takes: its inputs, and what it allocates."""
        return self._bytes[number]

    def remembers(self, number: int) -> bool:
        """Return whether calls of a plan were seen to write to its constants, where a later one may find it."""
        return number in self._remembering

    def called(self, number: int, inputs: Message, weights: Message, graph: bool) -> BatchOutputs | str:
        """Make one call on what a `Handover` described, without a reference; return its results, or why it fails."""
        handed = {"calls": [[0, None]], "inputs": [inputs], "factors": None}
        reason, _ = self._prepare((), number, handed, weights, graph=graph)
        if reason is None:
            made, _ = self.go()
            reason = made.reason
        return self._outputs([0], ()) if reason is None else reason

    def repeat_ms(self, calls: int) -> float:
        """Make the prepared call `calls` times; return the milliseconds until all have ended."""
        start = time.perf_counter()
        self.ask(Response, self._limits.call_s, "repeat", calls=calls)
        return (time.perf_counter() - start) * 1e3

    def hold_steps(self) -> list[TorchOperator]:
        """Make the call that is prepared; return its torch operators, which are kept for `time_steps`."""
        return self.ask(HeldSteps, self._limits.call_s, "hold_steps").steps

    def count_steps(self) -> list[Operator]:
        """Return what torch's operators do in the call that is prepared."""
        return self.ask(StepsResponse, self._limits.call_s, "count_steps").operators

    def time_steps(self) -> tuple[BatchResponse, float]:
        """Repeat each of the kept operators, after one on a single element; return the answer, and the milliseconds
        until it came."""
        start = time.perf_counter()
        made = self.ask(BatchResponse, self._limits.call_s, "time_steps")
        return made, (time.perf_counter() - start) * 1e3

    def packing_bytes(self, number: int) -> int:
        """Return what the steps of a plan's packing return, in bytes; 1 or more."""
        return self._packing_bytes[number]

    def prepare_packing(self, number: int, calls: int) -> None:
        """Prepare to pack the weights of the process `calls` times."""
        reason = self.ask(LoadedPlan, self._limits.compile_s, "prepare_packing", number=number, calls=calls).reason
        if reason is not None:
            raise CandidateError(Status.RUNTIME_ERROR, self.failed(reason))

    def go(self, empty: bool = False) -> tuple[BatchResponse, float]:
        """Make the calls that are prepared, or none; return the answer, and the milliseconds until it came."""
        start = time.perf_counter()
        made = self.ask(BatchResponse, self._limits.call_s, "go", empty=empty)
        return made, (time.perf_counter() - start) * 1e3

    def require_intact(self) -> None:
        """Raise `CandidateError` if the batch's calls wrote outside of their tensors, as reading outputs does."""
        self._outputs((), ())

    def pause(self) -> None:
        """Stop the process until the next request."""
        if self._worker is not None:
            self._worker.pause()

    def close(self) -> None:
        """End the process, and remove its files: at once, or soon."""
        if self._worker is not None:
            self._workers.retire(self._worker)

    def release(self) -> None:
        """Let the process free what can be handed over again, where that is large."""
        self._inputs = None
        self.ask(Response, self._limits.call_s, "release")

    def timed_out(self, op: str, seconds: float) -> str:
        """Return the message of a request that did not end in time."""
        return f"its launches did not end within {seconds:.0f} s"

    def died(self, op: str, how: str) -> str:
        """Return the message of a process that ended, or sent something else than an answer."""
        return f"{_SUBJECT} {how}"

    def failed(self, error: str) -> str:
        """Return the message of a request that ended with an error."""
        return f"its launches, replayed: {first_line(error)}"

    def _way(self) -> Message:
        """Return how tensors are handed over."""
        return {"folder": str(self.worker.inbox), "share": self._share}

    def _prepare(
        self,
        restored: Iterable[str],
        number: int,
        handed: Message,
        weights: Message | None,
        graph: bool,
        watch: bool = False,
        settle: bool = False,
    ) -> tuple[str | None, bool]:
        """Return why the plan does not fit what is handed over, or None; and whether that could be read."""
        prepared = self.ask(
            PreparedBatch, self._limits.compile_s, "prepare", number=number, weights=weights, graph=graph, watch=watch,
            settle=settle, restored=sorted(restored),
            **{name: handed[name] for name in ("calls", "inputs", "factors")},
        )  # fmt: skip
        if prepared.remembers and self._prepared is not None:
            self._remembering.add(self._prepared)
        self._prepared = number
        if not prepared.read:
            if not self._share:
                return "what it computes on could not be read", True
            self._share, self._weights, self._inputs = False, None, None
        return prepared.reason, prepared.read

    def _outputs(self, calls: Sequence[int], written: Sequence[int]) -> BatchOutputs:
        request = {"calls": list(calls), "written": list(written), "path": str(self.outputs), "share": self._share}
        found = self.ask(BatchOutputs, self._limits.call_s, "outputs", **request)
        if len(found.outputs) != len(calls):
            self.worker.end()
            raise CandidateError(Status.CRASHED, self.died("outputs", "sent no proper answer"))
        return found
