"""The reference at one workload: its model with the weights of a seed, its inputs, and the clock of its calls."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from ...core import Tolerance
from ..correctness.distributions import OTHER_WEIGHTS, change_weights, draw, vary_constants
from ..correctness.inputs import Feed
from ..timing.priority import Scheduling
from ..timing.timed_calls import TimedCalls
from ..workers.channel import Message
from ..workers.memory import is_large, release_cache
from ..workers.modules import ProblemModule, outputs_of
from .arithmetic import Arithmetic

_OF_WEIGHTS = 0x3C6EF372
"""Distinguishes the seed of the weights: from the numbers that they are made of, the inputs of a check would follow."""


class DrawnReference:
    """What all requests at one workload share; each draws the weights and inputs that it needs.

    `scheduling` is the process's, as it was before the first candidate ran.
    """

    def __init__(self, options: Message, arithmetic: Arithmetic, scheduling: Scheduling) -> None:
        self.options = options
        self.device: str = options["device"]
        self.arithmetic = arithmetic
        # JSON has no tuples.
        self.tolerances = {dtype: Tolerance(*pair) for dtype, pair in options["tolerances"].items()}
        self.model: Any = None
        self.weights: int | None = None
        """The seed of the model's weights."""
        self.models = 0
        """How often a model was drawn."""
        self._weights_changed = False
        self.inputs: list[Any] = []
        self.drawn: tuple[int, str | None, int] | None = None
        """What the inputs are (`inputs_of`)."""
        self.changes_inputs = False
        self.written_weights: frozenset[str] = frozenset()
        """The weights that the reference itself writes to."""
        self.scheduling = scheduling

    @cached_property
    def problem(self) -> ProblemModule:
        """The problem's module at these sizes."""
        return ProblemModule(Path(self.options["problem"]), self.options["sizes"], self.device)

    @cached_property
    def timed(self) -> TimedCalls:
        """The clock and the inputs of timed calls."""
        return TimedCalls(self.device, self.problem)

    @cached_property
    def feed(self) -> Feed:
        """The variants of the problem's own inputs on which calls are made, checked and timed ones alike."""
        return Feed(self.problem)

    def inputs_of(self, seed: int, distribution: str | None, variant: int) -> list[Any]:
        """Draw a call's inputs: of another distribution, or the variant of the problem's own with this number.

        The variant 0 is what the seed draws.
        """
        return self.feed.at(seed, variant) if variant else draw(self.problem, seed, distribution)

    def outputs(self, inputs: Sequence[Any]) -> list[Any]:
        """Return what the reference returns for these inputs."""
        return outputs_of(self.model(*inputs))

    def prepare(self, seed: int, distribution: str | None = None, variant: int = 0) -> None:
        """Draw the weights of a seed, and inputs (`inputs_of`), unless they are the current ones."""
        self.prepare_model(seed, distribution)
        wanted = seed, distribution, variant
        if self.drawn != wanted or self.changes_inputs:
            self.forget_inputs()  # freed before others are drawn
            self.inputs, self.drawn = self.inputs_of(*wanted), wanted

    def prepare_model(self, seed: int, distribution: str | None = None) -> None:
        """Draw the weights of a seed, unless they are the current ones."""
        changed = distribution == OTHER_WEIGHTS
        if self.weights != seed or self._weights_changed != changed:
            self.model, self.weights = vary_constants(self.problem.model(seed ^ _OF_WEIGHTS), seed), seed
            self._weights_changed = changed
            self.models += 1
            if changed:
                change_weights(self.model, seed)

    def forget_inputs(self) -> None:
        """Draw the inputs again before they are used."""
        self.inputs, self.drawn = [], None

    def release(self) -> None:
        """Free what can be drawn again, where it is large: the candidate may need the memory next."""
        if is_large(self.inputs):
            self.forget_inputs()
        if "timed" in vars(self):
            self.timed.release()
        release_cache(self.device)

    def release_timed(self) -> None:
        """Free the inputs of timed calls, where they are large; not on a CPU, where the next chunk continues them."""
        if self.device != "cpu" and "timed" in vars(self):
            self.timed.release()

    def clear(self) -> None:
        """Free the memory of checking, as the candidate's worker does before it times."""
        if self.drawn is not None:
            self.forget_inputs()
            release_cache(self.device)
