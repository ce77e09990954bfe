"""Measures what a call consists of: the host's work in the candidate's process, and torch's steps where it is replayed.

They are timed in turns, so that other load on the machine affects all of them. The evaluator's clock bounds them: it
bounds steps as it bounds calls (`timing.outside`), and what a call takes beyond its replay is the host's work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...core import Rejection, Status
from ..guards.measured_share import MeasuredShare, TorchOperator
from ..reference.client import ReferenceClient
from ..timing.outside import ClockMismatchError, OutsideClock
from ..timing.priority import raised
from .client import CandidateClient
from .replay_timer import rule_of_times
from .replayer import Replayer
from .responses import BatchResponse
from .verified import CandidateError

ROUNDS = 3
"""Repetitions of each timing; the fastest counts, since other processes only ever add time."""
MOST_ROUNDS = 12
"""The same where that would be held against the kernel."""
MOST_REPEATED, REPEATED_MS = 400, 10.0
"""Calls that are timed together: as many as take so long."""
UNSEEN_MS = 0.004
UNSEEN_SHARE = 0.2
"""On a CPU: what a call may take beyond its replay and the host's work, this much or this share of it, whichever is
more."""


class CallParts:
    """Measures calls that `client` has drawn (`draw_host`), and whose plan `replayer` has prepared for one call."""

    def __init__(
        self,
        client: CandidateClient,
        replayer: Replayer,
        reference_client: ReferenceClient,
        on_cpu: bool,
        integers: Callable[[], int] | None = None,
    ) -> None:
        """`integers` gives seeds of integers where launches depend on such: the host's work is measured on others each
        time, since a process may remember what it worked out for those that it has seen."""
        self._client = client
        self._replayer = replayer
        self._on_cpu = on_cpu
        self._integers = integers
        self._clock = OutsideClock(None if on_cpu else reference_client.idle, lambda: replayer.go(empty=True)[1])

    def measure(
        self, steps: Sequence[TorchOperator], violation: Callable[[MeasuredShare], Rejection | None]
    ) -> tuple[float, Rejection | None]:
        """Return the host's milliseconds of a call, and the `violation` of what torch's `steps` take of its replay.

        Raises `CandidateError`.
        """
        with raised((self._client.pid, self._replayer.pid) if self._on_cpu else ()):
            return self._measured(steps, violation)

    def _measured(
        self, steps: Sequence[TorchOperator], violation: Callable[[MeasuredShare], Rejection | None]
    ) -> tuple[float, Rejection | None]:
        whole = _WholeCalls(self._client, self._replayer) if self._on_cpu else None
        calls, batches, hosts = [], [], []
        while True:
            calls += self._agreed(self._replayer.go, 1)
            batches.append(self._agreed(self._repeated, 1 + len(steps)) if steps else [0.0])
            hosts.append(self._client.host_ms(self._integers() if self._integers is not None else None))
            if whole is not None:
                whole.measure()
            if len(calls) < ROUNDS:
                continue
            least_ms, *raw_ms = map(min, zip(*batches, strict=True))
            steps_ms = tuple(max(0.0, item - least_ms) for item in raw_ms)
            broken = violation(MeasuredShare(steps=tuple(steps), steps_ms=steps_ms, call_ms=min(calls)))
            unseen_ms = 0.0 if whole is None else whole.beyond(min(hosts))
            if (not unseen_ms and broken is None) or len(calls) == MOST_ROUNDS:
                return min(hosts) + unseen_ms, broken

    def _repeated(self) -> tuple[BatchResponse, float]:
        self._replayer.hold_steps()  # each is repeated once
        return self._replayer.time_steps()

    def _agreed(self, take: Callable[[], tuple[BatchResponse, float]], count: int) -> list[float]:
        """Return times that are not less than what the evaluator's clock leaves."""
        self._clock.restart()
        while True:
            made, wall_ms = take()
            if made.reason is not None or len(made.samples_ms) != count:
                why = self._replayer.failed(made.reason or f"{count} steps without their times")
                raise CandidateError(Status.RUNTIME_ERROR, why)
            try:
                times = (self._clock.lengthened if self._on_cpu else self._clock.agreed)(made.samples_ms, wall_ms)
            except ClockMismatchError as disagree:
                rule = rule_of_times(self._on_cpu)
                raise self._replayer.rejected(rule, "while parts of a call were timed", str(disagree)) from None
            if times is not None:
                return times


class _WholeCalls:
    """Calls in the candidate's process and replays of them, as many in one request, by the evaluator's clock."""

    def __init__(self, client: CandidateClient, replayer: Replayer) -> None:
        self._client = client
        self._replayer = replayer
        self._calls_ms: list[float] = []
        self._replays_ms: list[float] = []

    def measure(self) -> None:
        """Make some calls both ways."""
        least_ms = min(self._calls_ms, default=REPEATED_MS)
        count = max(1, round(REPEATED_MS / max(least_ms, REPEATED_MS / MOST_REPEATED)))
        call_ms, replay_ms = (item.repeat_ms(count) / count for item in (self._client, self._replayer))
        self._calls_ms.append(call_ms)
        self._replays_ms.append(replay_ms)

    def beyond(self, host_ms: float) -> float:
        """Return by how much a call takes longer than its replay and the host's work, where that is too much."""
        call_ms = min(self._calls_ms)  # others only ever add time
        unseen_ms = call_ms - min(self._replays_ms) - host_ms
        return unseen_ms if unseen_ms > max(UNSEEN_MS, UNSEEN_SHARE * call_ms) else 0.0
