"""Side effects of a call on its inputs: whether it wrote to them, and whether it returned them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..workers.channel import Message
from .eight_bit import widened


class SideEffects:
    """Created before a call with its inputs; queried after it with its outputs."""

    def __init__(self, inputs: Sequence[Any]) -> None:
        self._inputs = list(inputs)
        self._before = [_copy(value) for value in inputs]

    def of(self, outputs: Sequence[Any]) -> Message:
        """Return `changed`: the indices of inputs written to; `returned`: those whose memory is in an output."""
        changed = [i for i, (now, was) in enumerate(zip(self._inputs, self._before, strict=True)) if _differ(now, was)]
        ranges = [_memory(output) for output in outputs]
        returned = [i for i, value in enumerate(self._inputs) if any(_overlap(_memory(value), one) for one in ranges)]
        return {"changed": changed, "returned": returned}


def _copy(value: Any) -> Any:
    import torch

    return value.clone() if isinstance(value, torch.Tensor) else None


def _differ(now: Any, was: Any) -> bool:
    import torch

    if was is None:
        return False
    if type(now) is not type(was) or now.shape != was.shape or now.dtype != was.dtype:
        return True
    now, was = widened(now), widened(was)
    if torch.equal(now, was):
        return False
    # NaN is not equal to itself, and may have been there before.
    return not torch.equal(now.isnan(), was.isnan()) or not torch.equal(now.nan_to_num(), was.nan_to_num())


def _memory(value: Any) -> tuple[int, int] | None:
    import torch

    if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout != torch.strided or not value.numel():
        return None
    storage = value.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()


def _overlap(one: tuple[int, int] | None, other: tuple[int, int] | None) -> bool:
    return one is not None and other is not None and one[0] < other[1] and other[0] < one[1]
