"""The second launch of a kernel whose results several programs share: each element of the results for itself.

The first launch leaves partial results in scratch memory, one after the other; anchors combine them in that order, so
that results are the same in each run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from .emitter import Anchor, Emitter
from .indices import Index
from .pointwise.pattern import filled_elements
from .region import SPLITS, LaunchParameter, Region, Scratch, SecondLaunch, powers

_LEAST, _START, _MOST = 64, 128, 1024


class Partials:
    """The partial results of one kind: for each split as many as `shape` says.

    Results are shared where tiles are fewer than twice the multiprocessors, so that positions have 32 bits.
    """

    def __init__(self, name: str, shape: Sequence[int], first: int = 1) -> None:
        """`first` values of each are adjacent, such as those of several products."""
        self.name, self.size, self.count = name, prod(shape), first
        self.scratch = Scratch(name, (SPLITS, *map(str, (first, *shape) if first > 1 else shape)))

    @property
    def pointer(self) -> str:
        """The kernels' parameter."""
        return f"{self.name}_ptr"

    def stored(self, position: str, item: str, mask: str, number: int = 0) -> str:
        """Return the line that stores partial results of the current split."""
        return f"tl.store({self.pointer} + ({self._start(number)} + {position}), {item}, {mask})"

    def loaded(self, emitter: Emitter, position: Index, number: int = 0) -> str:
        """Return partial results of the current split as an expression."""
        emitter.buffers.setdefault(self.name, self.pointer)
        mask = " & ".join(sorted({*position.masks, *emitter.masks}))
        place = f"{self.pointer} + ({self._start(number)} + {position.text})"
        return f"tl.load({place}, mask={mask}, other=0)" if mask else f"tl.load({place})"

    def _start(self, number: int) -> str:
        part = "split" if self.count == 1 else f"(split * {self.count} + {number})"
        return f"{part} * {self.size}"


def alternative(whole: Sequence[str], parts: Sequence[str]) -> list[str]:
    """Return lines for a program that computes a result alone, and for programs that share it."""
    return [f"if {SPLITS} == 1:", *(f"    {line}" for line in whole), "else:", *(f"    {line}" for line in parts)]


def second_launch(
    region: Region, name: str, anchors: Callable[[Emitter], Mapping[str, Anchor]], partials: Sequence[Partials]
) -> SecondLaunch:
    """Return the launch that computes a region from partial results.

    `anchors` are given the launch's emitter. Raises `RefusedError`.
    """
    emitter = Emitter(region.graph, region.inlined)
    emitter.anchors.update(anchors(emitter))
    source = filled_elements(region, emitter, f"{name}_combined", SPLITS)
    return SecondLaunch(
        name=f"{name}_combined",
        source=source,
        buffers=tuple(emitter.buffers),
        grid=(f"triton.cdiv({region.value.size}, XBLOCK)",),
        parameters={"XBLOCK": LaunchParameter(_START, powers(_LEAST, _MOST))},
        scratch=tuple(item.scratch for item in partials),
    )
