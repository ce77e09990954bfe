"""Side effects of a call: whether it wrote to its inputs or returned them, and which weights it wrote to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..workers.channel import Message
from .digest import digest


class SideEffects:
    """Created before a call with its inputs; queried after it with its outputs."""

    def __init__(self, inputs: Sequence[Any]) -> None:
        self._inputs = list(inputs)
        self._before = [_state(value) for value in inputs]

    def of(self, outputs: Sequence[Any]) -> Message:
        """Return `changed`: the indices of inputs written to; `returned`: those whose memory is in an output."""
        changed = [i for i, (now, was) in enumerate(zip(self._inputs, self._before, strict=True)) if _differ(now, was)]
        ranges = [_memory(output) for output in outputs]
        returned = [i for i, value in enumerate(self._inputs) if any(_overlap(_memory(value), item) for item in ranges)]
        shared = [i for i, output in enumerate(outputs) if any(_same_elements(output, other) for other in outputs[:i])]
        return {"changed": changed, "returned": returned, "shared": shared}


class WrittenWeights:
    """Created before a call with a model's weights by name; queried after it."""

    def __init__(self, weights: Mapping[str, Any]) -> None:
        self._names = list(weights)
        self._effects = SideEffects(list(weights.values()))

    def names(self) -> list[str]:
        """Return the names of the weights that the call wrote to, as a normalization that trains does."""
        return [self._names[number] for number in self._effects.of([])["changed"]]


def _state(value: Any) -> tuple[Any, ...] | None:
    """Return type, shape, dtype and digest of a tensor, which need no further memory; None for anything else."""
    import torch

    return (type(value), value.shape, value.dtype, digest(value)) if isinstance(value, torch.Tensor) else None


def _differ(now: Any, was: tuple[Any, ...] | None) -> bool:
    import torch

    if was is None:
        return False
    return (type(now), now.shape, now.dtype) != was[:3] or not torch.equal(digest(now), was[3])


def _memory(value: Any) -> tuple[int, int] | None:
    import torch

    if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout != torch.strided or not value.numel():
        return None
    storage = value.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()


def _same_elements(first: Any, second: Any) -> bool:
    """Return whether two outputs have elements in common, by the ranges that they span."""
    return _overlap(_span(first), _span(second))


def _span(value: Any) -> tuple[int, int] | None:
    if _memory(value) is None:
        return None
    last = sum((extent - 1) * stride for extent, stride in zip(value.shape, value.stride(), strict=True))
    return value.data_ptr(), value.data_ptr() + (last + 1) * value.element_size()


def _overlap(first: tuple[int, int] | None, second: tuple[int, int] | None) -> bool:
    return first is not None and second is not None and first[0] < second[1] and second[0] < first[1]


def poison(like: list[Any]) -> None:
    """Leave NaN in the memory of the next allocations of such sizes, so that an unwritten output shows."""
    import torch

    spoiled = [
        torch.full_like(value, float("nan"))
        for value in like
        if type(value) is torch.Tensor and value.is_floating_point() and value.layout == torch.strided
    ]
    del spoiled
