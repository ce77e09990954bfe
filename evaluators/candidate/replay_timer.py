"""Times a launch plan in batches of random length, and draws afterwards which results are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...core import Rejection, Status
from ..correctness.distributions import OTHER_WEIGHTS
from ..reference.client import ReferenceClient
from ..timing.outside import ClockMismatchError, OutsideClock
from ..workers.channel import Message
from .replayer import Drawn, Replayer
from .verified import CandidateError, VerifiedConfig, distribution_label, rejected, trivial_output_in

MOST_CALLS = 96
"""Calls of a batch."""
LENGTHS = (0.75, 1.25)
"""A batch has a random number of calls: from this share of those that are asked for to that."""
BATCH_BYTES = 1 << 28
BATCH_SHARE = 1 / 10
"""Maximum memory of a batch's calls, unless a single call needs more: bytes on a CPU, a share of a GPU's memory."""
COMPARED_ONE_IN = 4
"""One of this many results is compared, chosen at random."""
OTHERS_ONE_IN = 4
"""One of this many chunks has one more call, on inputs of another distribution; the first two chunks, of one and two
calls, have none."""


def room_for_calls(properties: Mapping[str, Any] | None) -> int:
    """Return the bytes that the calls of a batch may take, given a GPU's properties, or None for a CPU."""
    return int(properties["total_memory"] * BATCH_SHARE) if properties else BATCH_BYTES


def rule_of_times(on_cpu: bool) -> str:
    """Return the rule that a process breaks whose times are not those of the evaluator's clock."""
    return "wrong-times" if on_cpu else "hidden-work"


class ReplayTimer:
    """Times one plan; call it with the number of calls to time. It raises `CandidateError`.

    Each chunk is on the next seed's inputs, and replays the next of the config's plans; the weights are those of the
    config. `draw` gives random numbers. A chunk may have a call on inputs of another distribution, whose time counts as
    any other's.
    """

    def __init__(
        self,
        replayer: Replayer,
        reference_client: ReferenceClient,
        checked: VerifiedConfig,
        seeds: Iterator[int],
        graph: bool,
        on_cpu: bool,
        draw: Callable[[], int],
    ) -> None:
        self._replayer = replayer
        self._reference_client = reference_client
        self._checked = checked
        self._seeds = seeds
        self._graph = graph
        self._draw = draw
        # On a CPU nothing else works while the host does.
        self._host_ms = (checked.host_ms or 0.0) if on_cpu else 0.0
        self._room = room_for_calls(None if on_cpu else reference_client.properties)
        self._on_cpu = on_cpu
        self._rule = rule_of_times(on_cpu)
        self._clock = OutsideClock(None if on_cpu else reference_client.idle, lambda: replayer.go(empty=True)[1])
        self._made: dict[int, int] = {}  # calls by seed
        self._timed_together = False
        self._chunks = self._turn = 0
        self._plan = checked.plans[0]
        distributions = [] if reference_client.written_weights else reference_client.distributions
        self._others = [distribution for distribution in distributions if distribution != OTHER_WEIGHTS]
        self.left_out = 0
        """Batches whose times were not those of this process's clock, and that were made again."""

    def __call__(self, samples: int) -> Message:
        """Return the times of about this many calls."""
        self._plan = self._checked.plans[self._chunks % len(self._checked.plans)]
        with self._replayer.holding(self._reference_client, self._plan):
            return self._times(samples)

    def _times(self, samples: int) -> Message:
        seed = next(self._seeds)
        taken: Message = {"samples_ms": [], "host_ms": [], "cores": 0.0, "method": ""}
        self._clock.restart()
        other = self._other()
        try:
            while len(taken["samples_ms"]) < LENGTHS[0] * samples:
                self._add_batch(taken, seed, samples - len(taken["samples_ms"]), other)
                other = None
        except CandidateError as failure:
            failure.config = self._checked.config
            raise
        if self._on_cpu:  # what it does between its own calls would slow the reference, which is timed next
            self._replayer.pause()
        return taken

    def _other(self) -> Message | None:
        """Return the call on inputs of another distribution that the next chunk has, or None."""
        if self._chunks % OTHERS_ONE_IN == 0:
            self._turn = self._chunks + 2 + self._draw() % (OTHERS_ONE_IN - 2)
        self._chunks += 1
        if not self._others or self._chunks != self._turn + 1:
            return None
        distribution = self._others[self._draw() % len(self._others)]
        return {"seed": self._draw(), "distribution": distribution, "place": self._draw()}

    def _add_batch(self, taken: Message, seed: int, left: int, other: Message | None) -> None:
        first = self._made.get(seed, 0)
        alone = self._alone
        drawn = self._replayer.prepare_timed(
            self._reference_client, self._plan.number, self._checked.weights, seed, first, self._length(left),
            self._graph, other,
        )  # fmt: skip
        count = len(drawn)
        self._made[seed] = first + sum(item[0] == seed for item in drawn)
        if self._alone and not alone and self._timed_together:
            why = "writes to a tensor that it keeps, in some calls only; a call must find nothing of an earlier one"
            raise self._replayer.rejected("changing-plan", "while it was timed", why)
        self._timed_together = self._timed_together or count > 1
        made, wall_ms = self._replayer.go()
        if made.reason is not None or len(made.samples_ms) != count:
            why = self._replayer.failed(made.reason or f"{count} calls, but {len(made.samples_ms)} times")
            raise CandidateError(Status.RUNTIME_ERROR, why)
        self._compare_some(drawn)
        try:
            times = self._clock.agreed(made.samples_ms, wall_ms)
        except ClockMismatchError as disagree:
            raise self._replayer.rejected(self._rule, "while it was timed", str(disagree)) from None
        if times is None:
            self.left_out += 1
            return
        taken["samples_ms"] += [item + self._host_ms for item in times]
        taken["host_ms"] += [max(0.0, wall_ms - self._clock.overhead_ms) / count] * count
        taken["cores"], taken["method"] = max(taken["cores"], made.cores), made.method

    @property
    def _alone(self) -> bool:
        """Whether a call would find what an earlier one of its batch wrote: what is written is put back before each."""
        return bool(self._reference_client.written_weights) or self._replayer.remembers(self._plan.number)

    def _length(self, left: int) -> int:
        """Return a random number of calls."""
        if self._alone:
            return 1
        least, most = (round(share * left) for share in LENGTHS)
        count = least + self._draw() % (most - least + 1)
        return max(1, min(count, MOST_CALLS, self._room // self._replayer.bytes_of(self._plan.number)))

    def _compare_some(self, drawn: Sequence[Drawn]) -> None:
        places = [place for place, (_, distribution, _) in enumerate(drawn) if distribution is None]
        others = set(range(len(drawn))).difference(places)
        number, left = divmod(len(places), COMPARED_ONE_IN)
        number += self._draw() % COMPARED_ONE_IN < left
        chosen = sorted([*others, *(places.pop(self._draw() % len(places)) for _ in range(number))])
        if not chosen:
            self._replayer.require_intact()
            return
        verdict = self._replayer.compare_timed(self._reference_client, self._checked.weights, drawn, chosen)
        if verdict["status"] != Status.OK:
            told = f"{distribution_label(verdict['distribution'])}: " if verdict.get("distribution") else ""
            why = f"a timed replay gave something else than the reference: {told}{verdict['message']}"
            raise rejected(Rejection(rule="wrong-when-timed", where="while it was timed", why=why))
        if (trivial := trivial_output_in(verdict)) is not None:
            raise rejected(trivial)
