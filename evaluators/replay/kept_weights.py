"""Notices timed calls that leave something in weights, or in what was packed of them, where a later call would find it.

Weights last from batch to batch, and nothing puts them back. A kernel may write there in few calls only, as inputs
decide: then a check of single calls is unlikely to see it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...core import Rejection
from ..correctness.digest import digest

RULE = "weights-changed"
_WHY = "writes to its weights, or to what it packed of them, in some calls; work on a copy"


Packed = tuple[int, int]
"""A plan's number, and that of a tensor in it."""


class KeptWeights:
    """Digests of weights by name, and of packed tensors, as they were when they were watched first."""

    def __init__(self) -> None:
        self._before: dict[str | Packed, Any] = {}
        self._watched: dict[str | Packed, Any] = {}

    def forget(self) -> None:
        """Forget all: there are other weights."""
        self._before.clear()
        self._watched.clear()

    def watch(self, weights: Mapping[str, Any], plan: int, packed: Mapping[int, Any]) -> None:
        """Watch these weights in the next batch, and what a plan packed of them, by number; and no others."""
        self._watched = {(plan, number): tensor for number, tensor in packed.items()}
        for name, tensor in weights.items():
            self._watched[name] = tensor
        for key, tensor in self._watched.items():
            if key not in self._before:
                self._before[key] = digest(tensor)

    def written(self) -> Rejection | None:
        """Return the rule that was broken where a watched tensor is not what it was."""
        if not self._watched:
            return None
        now = {key: digest(tensor) for key, tensor in self._watched.items()}
        if _same([self._before[key] for key in now], [*now.values()]):
            return None
        changed = next(key for key, found in now.items() if not _same([self._before[key]], [found]))
        where = changed if isinstance(changed, str) else f"what prepare made ({changed[1]})"
        return Rejection(rule=RULE, where=where, why=_WHY)


def _same(before: Sequence[Any], now: Sequence[Any]) -> bool:
    """Compare all at once: each comparison waits for the GPU."""
    import torch

    return bool(torch.equal(torch.cat([*before]), torch.cat([*now])))
