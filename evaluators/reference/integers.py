"""Requests about the integers of the inputs, on which the launches of a user's function may depend."""

from __future__ import annotations

from typing import Any

from ..correctness.reference_checks import same_result
from ..workers.channel import Message
from ..workers.modules import is_continuous
from ..workers.user_call import input_names
from .drawn_reference import DrawnReference


class IntegerRequests:
    """Each method serves the request of its name."""

    REQUESTS = ("hold_integers", "integers")

    def __init__(self, reference: DrawnReference) -> None:
        self._reference = reference

    def hold_integers(self, integers: int | None) -> Message:
        """Draw all inputs with the integers of this seed from now on, and the rest with their own; None ends that."""
        self._reference.hold_integers(integers)
        return {}

    def integers(self, seeds: list[int], written: list[int]) -> Message:
        """Return the names of the inputs whose integers differ between seeds, those of other tensors of integers as
        `fixed`, and in `decided` the number of the first result that integers decide alone: -1 where all depend on
        floating-point numbers, too.

        Results are also the inputs with the numbers in `written`.
        """
        problem, function = self._reference.problem, getattr(self._reference.model, "function", None)
        first, *others = (problem.inputs(seed) for seed in seeds)
        names = input_names(first, function)
        varied = [name for name, *given in zip(names, first, *others, strict=True) if _vary(*given)]
        whole = [name for name, value in zip(names, first, strict=True) if _is_whole(value)]
        with problem.holding(seeds[0]):
            results = [self._results(seed, written) for seed in seeds[:2]]
        pairs = enumerate(zip(*results, strict=True))
        decided = (number for number, pair in pairs if same_result(pair[:1], pair[1:]))
        fixed = [name for name in dict.fromkeys(whole) if name not in varied]
        return {"names": list(dict.fromkeys(varied)), "fixed": fixed, "decided": next(decided, -1)}

    def _results(self, seed: int, written: list[int]) -> list[Any]:
        inputs = self._reference.problem.inputs(seed)
        outputs = [output.detach().clone() for output in self._reference.outputs(inputs)]
        return [*outputs, *(inputs[number] for number in written)]


def _is_whole(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and not is_continuous(value)


def _vary(first: Any, *others: Any) -> bool:
    import torch

    if is_continuous(first):
        return False
    if isinstance(first, torch.Tensor):
        return not all(torch.equal(first, other) for other in others)
    return any(first != other for other in others)
