"""Requests that hand inputs and weights to the process that executes a candidate's launch plan.

That process has neither the problem nor a seed: what it computes on is drawn here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...core import find_language
from ..correctness.inputs import Feed
from ..languages.base import support_of
from ..workers.channel import Message
from ..workers.handover import Handover
from ..workers.memory import fitting, is_large
from ..workers.modules import weights_of
from .drawn_reference import DrawnReference


class HandoverRequests:
    """What is handed over at one workload; each method serves the request of its name.

    `inputs` and `factors` in a response go into the request of that process as they are; `reason` says why there are
    none. Tensors pass through device memory if `share` is set, else through files in `folder`.
    """

    REQUESTS = ("build_helpers", "hand_weights", "hand_inputs", "hand_calls", "take_back")

    def __init__(self, reference: DrawnReference) -> None:
        self._reference = reference
        device = reference.device
        self._weights, self._factors = Handover(device), Handover(device)
        self._inputs: list[Handover] = []
        self._feed: Feed | None = None
        self._helped: list[list[str]] = []

    def build_helpers(self, language: str, signatures: list[list[str]]) -> Message:
        """Let a language compile what is needed to launch kernels with such parameters; it is kept for later ones."""
        new = [one for one in signatures if one not in self._helped]
        if new:
            self._helped += new
            with contextlib.suppress(Exception):  # the other process compiles its own then
                support_of(find_language(language)).build_helpers(new)
        return {}

    def hand_weights(self, seed: int, folder: str, share: bool, distribution: str | None = None) -> Message:
        """Hand over the weights drawn from the seed, others for the distribution `OTHER_WEIGHTS`."""
        self._reference.scheduling.restore()
        self._reference.prepare_model(seed, distribution)
        weights = weights_of(self._reference.model)
        given = self._weights.give([*weights.values()], Path(folder, "weights.bin"), share)
        return {"weights": {"names": [*weights], "given": given}}

    def hand_inputs(self, seed: int, folder: str, share: bool, distribution: str | None = None) -> Message:
        """Hand over the inputs drawn from the seed, of another distribution if there is one; for one call."""
        reference = self._reference
        reference.prepare(seed, distribution)
        given = self._given([reference.inputs], folder, share)
        if is_large(reference.inputs):
            reference.forget_inputs()
        return {**given, "factors": None, "calls": [[0, None]]}

    def hand_calls(self, seed: int, first: int, count: int, fresh: bool, folder: str, share: bool) -> Message:
        """Hand over the inputs of `count` calls, or fewer, from the call of number `first` on, which begin with 1.

        They are variants of what is drawn from the seed (`inputs.Feed`), and are made of it where they are used:
        `calls` has, for each, its inputs among those that were handed over, and where its factors begin. Where that is
        not possible each call has inputs of its own. Unless `fresh` is set, the other process still has those of the
        seed.
        """
        feed = self._feed = self._feed or Feed(self._reference.problem)
        calls = [[0, start] for start in feed.starts(seed, first, count)]
        if not fresh:
            return {"inputs": None, "factors": None, "calls": calls, "reason": None}
        self._reference.clear()
        base = feed.base(seed)
        if feed.scales:
            factors = self._factors.give([feed.pool], Path(folder, "factors.bin"), share)
            handed = {**self._given([base], folder, share), "factors": factors, "calls": calls}
            if is_large(base):
                feed.forget()
            return handed
        some = min(count, fitting(base))
        del base
        feed.forget()  # each call has inputs that are drawn for it
        sets = [feed.at(seed, first + number) for number in range(some)]
        return {
            **self._given(sets, folder, share),
            "factors": None,
            "calls": [[number, None] for number in range(some)],
        }

    def take_back(self) -> Message:
        """Free what was handed over and is large: the other process does not use it any more."""
        for one in self._inputs:
            one.forget_large()
        return {}

    def _given(self, sets: Sequence[Sequence[Any]], folder: str, share: bool) -> Message:
        while len(self._inputs) < len(sets):
            self._inputs.append(Handover(self._reference.device))
        try:
            given = [
                handover.give(one, Path(folder, f"inputs-{number}.bin"), share)
                for number, (handover, one) in enumerate(zip(self._inputs, sets, strict=False))
            ]
        except TypeError as error:
            return {"inputs": None, "reason": f"an input cannot be handed over: {error}"}
        return {"inputs": given, "reason": None}
