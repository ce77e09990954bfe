"""Every member of the space, in order or in strides."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ..core import Config, Evaluation, SearchSpace


class Grid:
    """Asks for members 0, stride, 2 stride, ...; then for 1, stride + 1, ...: each exactly once.

    With a stride the first pass covers the whole space coarsely. A stride beyond the size acts like the size.
    """

    def __init__(self, space: SearchSpace, stride: int = 1) -> None:
        self._known: set[Config] = set()
        self._members = self._passes(space, stride)

    def ask(self, n: int = 1) -> list[Config]:
        """Return up to n new configs; empty at the end."""
        return list(islice((config for config in self._members if config not in self._known), n))

    def tell(self, config: Config, evaluation: Evaluation) -> None:
        """Skip a config that an earlier run has measured; a grid learns nothing else."""
        self._known.add(config)

    @staticmethod
    def _passes(space: SearchSpace, stride: int) -> Iterator[Config]:
        for first in range(stride):
            yield from islice(iter(space), first, None, stride)
