"""Checks and times what a candidate's launch plans compute, beside the reference.

The reference worker draws inputs and weights and hands them to the process that executes plans. Nothing that it says is
believed without a comparison: of results in the reference worker, of times with this process's clock (`ReplayTimer`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...core import Status
from ..correctness.distributions import OTHER_WEIGHTS
from ..reference.client import ReferenceClient
from ..workers.channel import Message
from .plan_process import PlanProcess
from .responses import BatchOutputs
from .verified import CandidateError, HandedPlan

Drawn = tuple[int, str | None, int]
"""Identifies a call's inputs: seed, distribution and variant (`DrawnReference.inputs_of`)."""


class Checked(NamedTuple):
    """One call of a plan: `reason` says why it could not be made; else there is a verdict, and what else it did."""

    reason: str | None
    verdict: Message
    outputs: BatchOutputs | None = None


class Replayer(PlanProcess):
    """A process of plans, on what the reference worker draws."""

    @contextlib.contextmanager
    def holding(self, reference_client: ReferenceClient, handed: HandedPlan) -> Iterator[None]:
        """Draw inputs with the integers that a plan holds for within the context."""
        if handed.integers is None:
            yield
            return
        self._inputs = None  # a seed draws others now
        with reference_client.holding(handed.integers):
            yield
        self._inputs = None

    def check(
        self,
        reference_client: ReferenceClient,
        number: int,
        seed: int,
        distribution: str | None,
        variant: int,
        precise: bool,
    ) -> Checked:
        """Make one call on the weights of a seed and on inputs (`DrawnReference.inputs_of`), and compare its result.

        `precise` also compares with fp64 and with trivial outputs, and makes the call again: `deterministic` in the
        verdict says whether that gave the same bits.
        """
        call = seed, distribution, variant
        reason, found = self._called(reference_client, number, call, watch=True)
        if found is None:
            return Checked(reason, {})
        if reference_client.has_large_inputs and not reference_client.finds_room():
            self.release()
            reference_client.call("take_back")
        verdict = reference_client.verdict(
            "check", seed=seed, path=str(self.outputs), outputs=found.described()[0], distribution=distribution,
            variant=variant, precise=precise, hold=precise, written=reference_client.effects["changed"],
            form=found.form, keep_open=True,
        )  # fmt: skip
        if self._cannot_share(verdict):
            return self.check(reference_client, number, *call, precise)
        if verdict["status"] == Status.OK and precise:
            _, again = self._called(reference_client, number, call, watch=False)
            if again is not None:
                request = {"path": str(self.outputs), "outputs": again.described()[0], "keep_open": True}
                verdict["deterministic"] = reference_client.call("same", **request)["same"]
        return Checked(None, verdict, found)

    def prepare_one(self, reference_client: ReferenceClient, number: int, seed: int) -> None:
        """Prepare one call on the weights and inputs of a seed, of a plan that fits them."""
        call = seed, None, 0
        if (reason := self._prepare_one(reference_client, number, call, settle=True)) is not None:
            raise CandidateError(Status.RUNTIME_ERROR, self.failed(reason))

    def prepare_timed(
        self,
        reference_client: ReferenceClient,
        number: int,
        weights: int,
        seed: int,
        first: int,
        count: int,
        graph: bool,
        other: Message | None = None,
    ) -> list[Drawn]:
        """Prepare up to `count` calls on variants of a seed's inputs, from the variant `first` on, and perhaps one more
        of another distribution (`HandoverRequests.hand_calls`); return what their inputs are.
        """
        given = self._hand_weights(reference_client, weights, None)
        fresh = self._inputs != seed or other is not None
        handed = reference_client.call(
            "hand_calls", seed=seed, first=first, count=count, fresh=fresh, other=other, **self._way()
        )
        self._inputs = seed if handed.get("kept") else None
        reason, read = handed["reason"], True
        if reason is None:
            reason, read = self._prepare(
                reference_client.written_weights, number, handed, given, graph=graph, settle=True
            )
        if reason is not None:
            raise CandidateError(Status.RUNTIME_ERROR, self.failed(reason))
        if not read:
            return self.prepare_timed(reference_client, number, weights, seed, first, count, graph, other)
        return [(seed, distribution, variant) for seed, distribution, variant in handed["drawn"]]

    def compare_timed(
        self, reference_client: ReferenceClient, weights: int, drawn: Sequence[Drawn], places: Sequence[int]
    ) -> Message:
        """Return the verdict on what the calls at these places of the batch returned, given the inputs of all.

        It is that on the first that differs from the reference, or on the last.
        """
        found = self._outputs(places, ())
        verdict = reference_client.verdict(
            "check_timed", weights=weights, drawn=[drawn[place] for place in places], path=str(self.outputs),
            outputs=found.described(), keep_open=True,
        )  # fmt: skip
        if self._cannot_share(verdict):
            return self.compare_timed(reference_client, weights, drawn, places)
        return verdict

    def _called(
        self, reference_client: ReferenceClient, number: int, call: Drawn, watch: bool
    ) -> tuple[str | None, BatchOutputs | None]:
        """Make one call; return why it cannot be made, or its results."""
        reason = self._prepare_one(reference_client, number, call, watch=watch)
        if reason is None:
            made, _ = self.go()
            reason = made.reason
        return reason, None if reason is not None else self._outputs([0], reference_client.effects["changed"])

    def _prepare_one(
        self, reference_client: ReferenceClient, number: int, call: Drawn, watch: bool = False, settle: bool = False
    ) -> str | None:
        """Prepare a call on the weights of its seed; return why that is not possible, or None."""
        seed, distribution, variant = call
        given = self._hand_weights(reference_client, seed, distribution)
        handed = reference_client.call(
            "hand_inputs", seed=seed, distribution=distribution, variant=variant, **self._way()
        )
        self._inputs = None
        if handed["reason"] is not None:
            return str(handed["reason"])
        restored = reference_client.written_weights
        reason, read = self._prepare(restored, number, handed, given, graph=False, watch=watch, settle=settle)
        return reason if read else self._prepare_one(reference_client, number, call, watch, settle)

    def _hand_weights(self, reference_client: ReferenceClient, seed: int, distribution: str | None) -> Message | None:
        """Let the reference worker hand over weights; None where the process has them."""
        wanted = (seed, distribution if distribution == OTHER_WEIGHTS else None)
        if self._weights == wanted:
            return None
        request = {"seed": seed, "distribution": distribution}
        handed: Message = reference_client.call("hand_weights", **request, **self._way())["weights"]
        self._weights = wanted
        return handed

    def _cannot_share(self, verdict: Message) -> bool:
        """Return whether outputs must be handed over once more, through a file."""
        if not (self._share and verdict.get("unreadable")):
            return False
        self._share = False
        return True
