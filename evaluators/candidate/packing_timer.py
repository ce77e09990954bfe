"""Times the packing of a replayed kernel's weights, which runs once for a set of weights, apart from the calls."""

from __future__ import annotations

from ...core import Measurement, Status
from ..reference.client import ReferenceClient
from ..timing.outside import ClockMismatchError, OutsideClock
from .replay_timer import room_for_calls, rule_of_times
from .replayer import Replayer
from .verified import CandidateError, VerifiedConfig

PACKINGS = 9
"""Number of times the weights are packed, if there is room for the results."""


class PackingTimer:
    """Times the packing of plans in one process, whose times the clock of this one must confirm."""

    def __init__(self, replayer: Replayer, reference_client: ReferenceClient, on_cpu: bool) -> None:
        self._replayer = replayer
        self._idle = None if on_cpu else reference_client.idle
        self._room = room_for_calls(None if on_cpu else reference_client.properties)
        self._rule = rule_of_times(on_cpu)

    def measured(self, checked: VerifiedConfig) -> Measurement:
        """Return the times of packing the weights that the process has. Raises `CandidateError`."""
        number = checked.plans[0].number
        clock = OutsideClock(self._idle, lambda: self._replayer.go(empty=True)[1])
        count = max(1, min(PACKINGS, self._room // self._replayer.packing_bytes(number)))
        while True:
            self._replayer.prepare_packing(number, count)
            made, wall_ms = self._replayer.go()
            if made.reason is not None or len(made.samples_ms) != count:
                why = made.reason or f"{count} times packed, but {len(made.samples_ms)} times"
                raise CandidateError(Status.RUNTIME_ERROR, self._replayer.failed(why))
            try:
                times = clock.agreed(made.samples_ms, wall_ms)
            except ClockMismatchError as disagree:
                where = "while it packed its weights"
                raise self._replayer.rejected(self._rule, where, str(disagree)) from None
            if times is not None:
                return Measurement(samples_ms=tuple(times), method=made.method)
