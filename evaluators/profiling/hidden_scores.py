"""Attention that is written out: products of scores that a mask hides, which a floor does not count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..workers.channel import Message
from .products import HIDDEN, storage_of, tensors_in

_PRODUCTS = ("bmm", "baddbmm", "mm", "addmm")
_SOFTMAX = ("_softmax", "_safe_softmax")


class HiddenScores:
    """Follows scores from their product to a softmax, and its weights to the next product, by storage.

    Whatever hides them (causal masks, windows, tensors of the caller), hidden scores are very small in the softmax's
    operand. Both products then count for the visible share alone.
    """

    def __init__(self) -> None:
        # The weak references keep addresses from being used a second time.
        self._scores: dict[int, tuple[Any, Message]] = {}
        self._shares: dict[int, tuple[Any, float]] = {}

    def note(self, func: Any, args: Sequence[Any], result: Any, operator: Message) -> None:
        """Take in what an operator did, and correct its count, or that of the product which made its scores."""
        import torch

        if func.is_view or not isinstance(result, torch.Tensor):
            return
        name, read = func.overloadpacket.__name__, tensors_in(list(args))
        if name in _PRODUCTS:
            left = read[-2]
            _scale(operator, self._shares.get(storage_of(left), (None, 1.0))[1])
            self._remember(self._scores, result, operator)
            return
        same = [item for item in read if item.numel() == result.numel()]
        made = next((self._scores[key] for item in same if (key := storage_of(item)) in self._scores), None)
        if name in _SOFTMAX and made is not None and result.numel():
            share = int(torch.count_nonzero(args[0] > HIDDEN)) / result.numel()
            _scale(made[1], share)
            self._remember(self._shares, result, share)
        elif made is not None:
            self._remember(self._scores, result, made[1])
        elif weights := next((self._shares[key] for item in same if (key := storage_of(item)) in self._shares), None):
            self._remember(self._shares, result, weights[1])

    def _remember(self, table: dict[int, tuple[Any, Any]], result: Any, item: Any) -> None:
        from torch.multiprocessing.reductions import StorageWeakRef

        if key := storage_of(result):
            table[key] = StorageWeakRef(result.untyped_storage()), item


def _scale(operator: Message, share: float) -> None:
    for name in ("flops", "matrix_flops"):
        operator[name] *= share
