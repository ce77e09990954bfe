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
from ..workers.memory import LARGE, has_room, is_large, release_cache
from ..workers.modules import ProblemModule, outputs_of
from ..workers.tensor_ipc import OpenMemory
from .arithmetic import Arithmetic

_OF_WEIGHTS = 0x3C6EF372
"""Distinguishes the seed of the weights: from the numbers that they are made of, the inputs of a check would follow."""

BESIDE, CHECK = 4, 8
"""Multiples of the bytes of the problem's tensors: what a call in another process may take, and a check in this one."""
UNKNOWN = 1 << 50
"""Bytes, more than any GPU has."""


class DrawnReference:
    """State that all requests at one workload share; each draws the weights and inputs that it needs.

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
        """Number of models drawn so far."""
        self._weights_changed = False
        self.inputs: list[Any] = []
        self.drawn: tuple[int, str | None, int] | None = None
        """The current inputs (`inputs_of`)."""
        self.changes_inputs = False
        self.written_weights: frozenset[str] = frozenset()
        """The weights that the reference itself writes to."""
        self.scheduling = scheduling
        self.tensor_bytes = UNKNOWN
        """Bytes of inputs, weights and outputs; while they are unknown, nothing large is kept."""
        self.opened = OpenMemory()
        """Tensors that other processes have handed over."""

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
        if variant:
            return self.feed.at(seed, variant, keep=self.leaves_room and self.finds_room)
        return draw(self.problem, seed, distribution)

    def hold_integers(self, seed: int | None) -> None:
        """From now on draw all inputs with the integers of this seed; None ends that."""
        self.forget_inputs()
        self.feed.forget()
        self.problem.hold_integers(seed)

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

    @property
    def leaves_room(self) -> bool:
        """Whether a GPU has enough memory left for another process while this one keeps all it has, cached or not.

        Then it keeps what it has, where the problem's tensors are large: to free them, and to allocate and draw them
        again, takes longer than most of what is done with them.
        """
        return self.tensor_bytes > LARGE and has_room(self.device, BESIDE * self.tensor_bytes)

    @property
    def finds_room(self) -> bool:
        """Whether there is enough memory left for a check by this process while others keep theirs."""
        return self.tensor_bytes > LARGE and has_room(self.device, CHECK * self.tensor_bytes, cached=True)

    def release(self) -> None:
        """Free what can be drawn again, where it is large: the candidate may need the memory next."""
        if self.leaves_room:
            return
        if is_large(self.inputs):
            self.forget_inputs()
        self._release_all_else()
        release_cache(self.device)

    def make_room(self) -> None:
        """Free what a check does not use, where that is large and the check may need the memory."""
        if not self.finds_room:
            self._release_all_else()

    def _release_all_else(self) -> None:
        if "timed" in vars(self):
            self.timed.release()
        if "feed" in vars(self) and self.feed.is_large:
            self.feed.forget()
        self.close_opened()

    def close_opened(self) -> None:
        """Close what other processes have handed over, where it is large: while it is open it stays in use."""
        if self.opened.bytes > LARGE:
            self.opened.close()

    def release_timed(self) -> None:
        """Free the inputs of timed calls, where they are large; not on a CPU, where the next chunk continues them."""
        if self.device != "cpu" and "timed" in vars(self) and not self.finds_room:
            self.timed.release()

    def clear(self) -> None:
        """Free the memory of checking, as the candidate's worker does before it times."""
        if self.drawn is not None:
            self.forget_inputs()
            if not self.leaves_room:
                release_cache(self.device)
