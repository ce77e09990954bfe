"""Few rows of great length: programs that share them, each with a part of a row, and a launch that combines the parts.

The first launch's results are one for each row, so that the second is small; what is computed of them for each element
of the rows has a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ..combining import Partials, alternative, second_launch
from ..elementwise import Scalar, computed
from ..emitter import Anchor, Emitter, Indices
from ..indices import Index, linear
from ..region import MULTIPROCESSORS, SPLITS, LaunchParameter, Region, SecondLaunch, power_above, powers
from .reductions import RowReduction, exponential_sum

_MOST_SPLITS = 128
_LEAST_SHARE = 4096
"""Elements of a row that a program has at the start."""
OR_NAN = {"amax": "larger_or_nan", "amin": "smaller_or_nan"}
"""Functions of `helpers`."""
_EXTREME = {"amax": 'float("-inf")', "amin": 'float("inf")'}


def splits(rows: int, width: int) -> LaunchParameter | None:
    """Return how many programs may share a row; None where rows are enough for all multiprocessors."""
    if rows >= MULTIPROCESSORS or width < 2 * _LEAST_SHARE:
        return None
    start = min(_MOST_SPLITS, power_above(2 * MULTIPROCESSORS // rows), power_above(width // _LEAST_SHARE))
    return LaunchParameter(start, powers(1, _MOST_SPLITS))


def can_share(region: Region, reductions: Sequence[RowReduction]) -> bool:
    """Return whether parts of reductions can be left in memory: floats of 32 bits."""
    return all(computed(region.graph.by_name[item.name].dtype) == "float32" for item in reductions)


class SharedRows:
    """The partial results of a region's reductions."""

    def __init__(self, region: Region, reductions: Sequence[RowReduction], freedom: dict[str, float]) -> None:
        """`freedom` divides the squares of each variance."""
        self._region, self._reductions, self._freedom = region, reductions, freedom
        self._maximum_of = {item.name: exponential_sum(region.graph, item) for item in reductions}
        self._places: dict[str, int] = {}
        for item in reductions:
            for name in self._kept(item):
                self._places[name] = len(self._places)
        self._partials = Partials(f"partials_{region.number}", [reductions[0].rows], len(self._places))

    def _kept(self, item: RowReduction) -> list[str]:
        """Return the variables of the first launch that hold a reduction's part."""
        return [f"{item.name}_{part}" for part in ("mean", "square", "seen")] if item.kind == "var" else [item.name]

    def divided(self, emitter: Emitter, name: str, whole: Sequence[str]) -> tuple[list[str], SecondLaunch]:
        """Return what follows the loop of the kernel with this name, and the launch that combines the parts."""
        emitter.buffers[self._partials.name] = self._partials.pointer
        seen = [
            f"{item.name}_seen = tl.zeros([ROWS, 1], tl.float32) + tl.maximum(end - begin, 0)"
            for item in self._reductions
            if item.kind == "var"
        ]
        stores = [self._partials.stored("row", part, "row_mask", place) for part, place in self._places.items()]
        second = second_launch(self._region, name, self._anchors, [self._partials])
        return alternative(whole, [*seen, *stores]), second

    def _anchors(self, emitter: Emitter) -> dict[str, Anchor]:
        return {item.name: partial(self._combined, emitter, item) for item in self._reductions}

    def _combined(self, emitter: Emitter, item: RowReduction, indices: Indices) -> Scalar:
        """Write a reduction of its parts, in their order."""
        shape = item.operand.shape
        places = [indices[place] for place in item.others] if item.kept else list(indices)
        row = linear(places, [shape[place] for place in item.others])
        total, most = emitter.variable(f"tl.full([XBLOCK], {_EXTREME.get(item.kind, '0.0')}, tl.float32)"), None
        part, steps = self._part(emitter, item.name, row) if item.kind != "var" else "", list[str]()
        if item.kind == "var":
            mean, seen = (emitter.variable("tl.zeros([XBLOCK], tl.float32)") for _ in range(2))
            own, square, count = (self._part(emitter, name, row) for name in self._kept(item))
            steps = [
                f"delta = {own} - {mean}",
                f"count = {count}",
                f"joined = tl.maximum({seen} + count, 1)",
                f"{total} += {square} + delta * delta * {seen} * count / joined",
                f"{mean} += delta * count / joined",
                f"{seen} += count",
            ]
        elif item.kind in OR_NAN:
            steps = [f"{total} = {OR_NAN[item.kind]}({total}, {part})"]
        elif (most := self._maximum_of[item.name]) in self._places:
            largest = emitter.variable('tl.full([XBLOCK], float("-inf"), tl.float32)')
            own = self._part(emitter, str(most), row)
            emitter.lines.append(f"for split in tl.static_range({SPLITS}):")
            emitter.lines.append(f"    {largest} = tl.maximum({largest}, {own})")
            finite = emitter.variable(f'tl.where({largest} == float("-inf"), 0.0, {largest})')
            steps = [f"{total} += {part} * tl.exp({own} - {finite})"]
        else:
            steps = [f"{total} += {part}"]
        emitter.lines.extend([f"for split in tl.static_range({SPLITS}):", *(f"    {step}" for step in steps)])
        share = f" / {self._freedom[item.name]}" if item.kind == "var" else ""
        return Scalar(emitter.variable(f"{total}{share}"), "float32")

    def _part(self, emitter: Emitter, name: str, row: Index) -> str:
        return self._partials.loaded(emitter, row, self._places[name])
