"""A batch of calls of a launch plan: what they return, and the side effects of the first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..correctness.side_effects import SideEffects, WrittenWeights
from ..workers.channel import Message
from ..workers.modules import outputs_of


class CallBatch:
    """Calls that are prepared, and what they returned."""

    def __init__(self, number: int = 0, executor: Any = None, inputs: Sequence[Sequence[Any]] = ()) -> None:
        self.number = number
        self.executor = executor
        self.inputs = inputs
        self.results: list[Any] = []
        self._watched: tuple[SideEffects, WrittenWeights, SideEffects] | None = None

    def call(self, place: int, weights: Mapping[str, Any]) -> Callable[[], object]:
        """Return a call as a function without arguments."""
        return lambda: self.executor(self.inputs[place], weights, place)

    def watch(self, weights: Mapping[str, Any]) -> None:
        """Look for side effects of the first call."""
        packed = {f"what prepare made ({number})": tensor for number, tensor in self.executor.packed.items()}
        kept = SideEffects([*weights.values(), *packed.values(), *self.executor.constants.values()])
        self._watched = SideEffects(self.inputs[0]), WrittenWeights({**weights, **packed}), kept

    def seen(self) -> Message:
        """Return the inputs that the first call changed or returned, the weights that it wrote to, and `kept`: the
        outputs whose memory outlives it. Nothing where it is not watched."""
        if self._watched is None:
            return {}
        on_inputs, on_weights, kept = self._watched
        outputs = outputs_of(self.results[0])
        return {**on_inputs.of(outputs), "weights": on_weights.names(), "kept": kept.of(outputs)["returned"]}
