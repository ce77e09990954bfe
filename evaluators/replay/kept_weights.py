"""Notices timed calls that leave something in weights, or in what was packed of them, where a later call would find it.

Weights last from batch to batch, and nothing puts them back. A kernel may write there in few calls only, as inputs
decide: then a check of single calls is unlikely to see it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core import Rejection
from ..correctness.digest import digest

RULE = "weights-changed"
_WHY = "writes to its weights, or to what it packed of them, in some calls; work on a copy"


class KeptWeights:
    """Digests of tensors by name, as they were when they were watched first."""

    def __init__(self) -> None:
        self._before: dict[str, Any] = {}
        self._watched: dict[str, Any] = {}

    def forget(self) -> None:
        """Forget all: there are other weights."""
        self._before.clear()
        self._watched.clear()

    def watch(self, tensors: Mapping[str, Any]) -> None:
        """Watch these in the next batch, and no others."""
        self._watched = dict(tensors)
        for name, tensor in tensors.items():
            if name not in self._before:
                self._before[name] = digest(tensor)

    def written(self) -> Rejection | None:
        """Return the rule that was broken where a watched tensor is not what it was."""
        if not self._watched:
            return None
        now = {name: digest(tensor) for name, tensor in self._watched.items()}
        if _same({name: self._before[name] for name in now}, now):
            return None
        where = next(name for name in now if not _same({name: self._before[name]}, {name: now[name]}))
        return Rejection(rule=RULE, where=where, why=_WHY)


def _same(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Compare all at once: each comparison waits for the GPU."""
    import torch

    return bool(torch.equal(torch.cat([*before.values()]), torch.cat([*now.values()])))
