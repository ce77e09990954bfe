"""Requests that hand inputs and weights to the process that executes a candidate's launch plan.

That process has neither the problem nor a seed: what it computes on is drawn here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...core import find_language
from ..correctness.distributions import draw
from ..languages.base import support_of
from ..languages.helpers import MOST
from ..workers.channel import Message
from ..workers.handover import Handover
from ..workers.memory import fitting, is_large
from ..workers.modules import weights_of
from .drawn_reference import DrawnReference


class HandoverRequests:
    """Hands tensors over at one workload; each method serves the request of its name.

    `inputs` and `factors` in a response go into the request of that process as they are; `reason` says why there are
    none. Tensors pass through device memory if `share` is set, else through files in `folder`.
    """

    REQUESTS = ("build_helpers", "hand_weights", "hand_inputs", "hand_calls", "take_back")

    def __init__(self, reference: DrawnReference) -> None:
        self._reference = reference
        device = reference.device
        self._weights, self._factors = Handover(device), Handover(device)
        self._inputs: list[Handover] = []
        self._helped: list[list[str]] = []

    def build_helpers(self, language: str, signatures: list[list[str]]) -> Message:
        """Let a language compile what is needed to launch kernels with such parameters; it is kept for later ones."""
        new = [signature for signature in signatures if signature not in self._helped]
        for signature in new[: max(0, MOST - len(self._helped))]:  # more are not copied
            self._helped.append(signature)
            with contextlib.suppress(Exception):  # the other process compiles its own then
                support_of(find_language(language)).build_helpers([signature])
        return {}

    def hand_weights(self, seed: int, folder: str, share: bool, distribution: str | None = None) -> Message:
        """Hand over the weights drawn from the seed, others for the distribution `OTHER_WEIGHTS`."""
        self._reference.scheduling.restore()
        self._reference.prepare_model(seed, distribution)
        weights = weights_of(self._reference.model)
        given = self._weights.give([*weights.values()], Path(folder, "weights.bin"), share)
        return {"weights": {"names": [*weights], "given": given}}

    def hand_inputs(
        self, seed: int, folder: str, share: bool, distribution: str | None = None, variant: int = 0
    ) -> Message:
        """Hand over the inputs of one call (`DrawnReference.inputs_of`)."""
        reference = self._reference
        if variant:
            return self.hand_calls(seed, variant, 1, True, folder, share)
        reference.prepare(seed, distribution)
        given = self._given([reference.inputs], folder, share)
        if is_large(reference.inputs) and not reference.leaves_room:
            reference.forget_inputs()
        return {**given, "factors": None, "calls": [[0, None]]}

    def hand_calls(
        self,
        seed: int,
        first: int,
        count: int,
        fresh: bool,
        folder: str,
        share: bool,
        other: Message | None = None,
    ) -> Message:
        """Hand over the inputs of `count` calls, or fewer, from the variant of number `first` on.

        They are variants of what is drawn from the seed (`inputs.Feed`), and are made of it where they are used:
        `calls` has, for each, its inputs among those that were handed over, and where its factors begin. Where that is
        not possible each call has inputs of its own. Unless `fresh` is set, the other process still has those of the
        seed: it has if they were `kept`. `other` adds a call on inputs of another distribution, given its seed,
        distribution and place; not where inputs are large. `drawn` is what `DrawnReference.inputs_of` takes for each.
        """
        reference = self._reference
        feed = reference.feed
        drawn: list[tuple[int, str | None, int]] = [(seed, None, first + number) for number in range(count)]
        calls = [[0, start] for start in feed.starts(seed, first, count)]
        if not fresh:
            return {"inputs": None, "factors": None, "calls": calls, "drawn": drawn, "reason": None, "kept": True}
        reference.clear()
        sets, factors = [feed.base(seed)], None
        room, kept = fitting(sets[0]), feed.scales
        if kept:
            factors = self._factors.give([feed.pool], Path(folder, "factors.bin"), share)
        else:  # each call has inputs that are drawn for it
            sets.clear()
            feed.forget()
            drawn = drawn[:room]
            sets = [reference.inputs_of(*item) for item in drawn]
            calls = [[number, None] for number in range(len(sets))]
        if other is not None and room > 1:
            place = other["place"] % (len(calls) + 1)
            calls.insert(place, [len(sets), None])
            drawn.insert(place, (other["seed"], other["distribution"], 0))
            sets.append(draw(reference.problem, other["seed"], other["distribution"]))
        handed = {**self._given(sets, folder, share), "factors": factors, "calls": calls, "drawn": drawn, "kept": kept}
        if is_large(sets[0]) and not reference.leaves_room:
            feed.forget()
        return handed

    def take_back(self) -> Message:
        """Free what was handed over and is large: the other process does not use it any more."""
        for value in self._inputs:
            value.forget_large()
        return {}

    def _given(self, sets: Sequence[Sequence[Any]], folder: str, share: bool) -> Message:
        while len(self._inputs) < len(sets):
            self._inputs.append(Handover(self._reference.device))
        try:
            given = [
                handover.give(values, Path(folder, f"inputs-{number}.bin"), share)
                for number, (handover, values) in enumerate(zip(self._inputs, sets, strict=False))
            ]
        except TypeError as error:
            return {"inputs": None, "reason": f"an input cannot be handed over: {error}"}
        return {"inputs": given, "reason": None}
