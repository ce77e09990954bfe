"""Products of a graph: matrix products, and convolutions as products of what their windows hold (implicit GEMM)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, prod

from ....core.dynamic_size import divides
from ....core.operator_graph import GraphValue, OperatorGraph, referenced
from ..elementwise import Scalar, constant, written
from ..emitter import Emitter, Indices, RefusedError
from ..indices import Index, Symbol, apart
from ..views import is_view, plain_name, source
from ..windows.forms import numbers, window_of

_MATRICES = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1}
"""Position of the first factor among the arguments."""


def is_product(graph: OperatorGraph, value: GraphValue) -> bool:
    """Return whether a value is a product; convolutions of few channels a group are left to windows."""
    operator = plain_name(value)
    if operator == "convolution":
        return int(value.arguments[8]) == 1 or window_of(graph, value) is None
    return operator in _MATRICES


def tile_index(text: str, extent: int, largest: int) -> Index:
    """Return an index of a tile of at most `largest`: under a mask where tiles do not divide the extent."""
    masks = frozenset[str]() if divides(largest, extent) else frozenset({f"{text}_mask"})
    return Index() if extent == 1 else Index.of(Symbol(text, extent, masks))


@dataclass(frozen=True, eq=False)
class Factors:
    """A product of two factors: `batch` products of m rows, n columns and k terms."""

    graph: OperatorGraph
    value: GraphValue

    @cached_property
    def left(self) -> GraphValue:
        """The first factor: rows."""
        return self._operand(_MATRICES.get(plain_name(self.value), 0))

    @cached_property
    def right(self) -> GraphValue:
        """The second factor: columns."""
        return self._operand(_MATRICES.get(plain_name(self.value), 0) + 1)

    def _operand(self, place: int) -> GraphValue:
        return self.graph.by_name[str(referenced(self.value.arguments[place]))]

    @property
    def is_convolution(self) -> bool:
        """Whether it is one."""
        return plain_name(self.value) == "convolution"

    @cached_property
    def sizes(self) -> tuple[int, int, int, int]:
        """Batch, m, n and k."""
        if not self.is_convolution:
            batch = self.value.shape[0] if len(self.value.shape) == 3 else 1
            return batch, self.value.shape[-2], self.value.shape[-1], self.left.shape[-1]
        if len(self.left.shape) != len(self.right.shape):
            raise RefusedError("a convolution without a batch")
        groups, shape = int(self.value.arguments[8]), self.value.shape
        positions = shape[0] * prod(shape[2:])
        return groups, positions, shape[1] // groups, self.left.shape[1] // groups * prod(self.right.shape[2:])

    def place(self, group: Index, row: Index, column: Index) -> Indices:
        """Return the index of a tile's element in the product."""
        shape = self.value.shape
        if not self.is_convolution:
            return (group, row, column) if len(shape) == 3 else (row, column)
        first, *positions = apart(row, (shape[0], *shape[2:]))
        return (first, group.times(self.sizes[2]).plus(column), *positions)

    def factor(self, emitter: Emitter, group: Index, row: Index, column: Index) -> str:
        """Return a tile of the first factor as a variable; `column` is that of the sum."""
        if not self.is_convolution:
            lead = (group,) if len(self.value.shape) == 3 else ()
            return emitter.tile(self.left.name, (*lead, row, column), "[BLOCK_M, BLOCK_K]")
        first, _, *positions = self.place(group, row, Index())
        *taps, channel = self._taps(column)
        inner, conditions = self._read(positions, taps)
        channel = group.times(self.sizes[3] // prod(self.right.shape[2:])).plus(channel)
        with emitter.masked(*conditions):
            return emitter.tile(self.left.name, (first, channel, *inner), "[BLOCK_M, BLOCK_K]")

    def other_factor(self, emitter: Emitter, group: Index, row: Index, column: Index) -> str:
        """Return a tile of the second factor as a variable; `row` is that of the sum."""
        if not self.is_convolution:
            lead = (group,) if len(self.value.shape) == 3 else ()
            return emitter.tile(self.right.name, (*lead, row, column), "[BLOCK_K, BLOCK_N]")
        *taps, channel = self._taps(row)
        if not self._transposed:
            indices = (group.times(self.sizes[2]).plus(column), channel, *taps)
        else:
            extents = self.right.shape[2:]
            taps = [tap.times(-1).plus(extent - 1) for tap, extent in zip(taps, extents, strict=True)]
            own = group.times(self.left.shape[1] // self.sizes[0]).plus(channel)
            indices = (own, column, *taps)
        return emitter.tile(self.right.name, indices, "[BLOCK_K, BLOCK_N]")

    @property
    def _transposed(self) -> bool:
        return bool(self.value.arguments[6])

    def _taps(self, term: Index) -> Indices:
        """Return which element of a window, and (last) which channel, a term of the sum is.

        Channels change the fastest if they are last in the operand's memory, otherwise elements of the window, as in
        the filters.
        """
        extents, channels = self.right.shape[2:], self.left.shape[1] // self.sizes[0]
        if self._channels_last:
            return apart(term, (*extents, channels))
        channel, *taps = apart(term, (channels, *extents))
        return (*taps, channel)

    @cached_property
    def _channels_last(self) -> bool:
        channel = Symbol("channel", self.left.shape[1])
        value, indices = self.left, (Index(), Index.of(channel), *[Index()] * (len(self.left.shape) - 2))
        try:
            while is_view(self.graph, value):
                name, indices = source(self.graph, value, indices)
                value = self.graph.by_name[name]
        except KeyError:
            return False
        return [symbol for symbol, _ in indices[-1].terms] == [channel]

    def _read(self, positions: Indices | list[Index], taps: Indices | list[Index]) -> tuple[Indices, list[str]]:
        """Return where an element of a window is in the operand, and conditions under which it is there."""
        rank, given = len(taps), self.value.arguments
        found, conditions = list[Index](), list[str]()
        options = [numbers(given[place], rank, default) for place, default in ((3, 1), (4, 0), (5, 1))]
        sizes = zip(positions, taps, *options, self.right.shape[2:], self.left.shape[2:], strict=True)
        for position, tap, stride, padding, dilation, extent, size in sizes:
            if self._transposed:  # a window over elements with `stride - 1` zeros between them, its taps reversed
                before = dilation * (extent - 1) - padding
                shift = max(0, ceil(before / stride))
                spread = position.plus(tap.times(dilation)).plus(shift * stride - before)
                index = spread.over(stride).plus(-shift)
                conditions += [f"({spread.modulo(stride).text} == 0)"] if stride > 1 else []
            else:
                index = position.times(stride).plus(tap.times(dilation)).plus(-padding)
            conditions += [f"({index.text} >= 0)"] if index.least < 0 else []
            conditions += [f"({index.text} < {size})"] if index.most >= size else []
            found.append(index)
        return tuple(found), conditions

    def finished(self, emitter: Emitter, found: Scalar, indices: Indices) -> Scalar:
        """Return an element of the product plus the operator's addend."""
        value = self.value
        if self.is_convolution:
            bias = value.arguments[2]
            if bias is None:
                return found
            return written("add", [found, emitter.operand(bias, (indices[1],), "float32")], "float32")
        alpha, beta = value.keywords.get("alpha", 1), value.keywords.get("beta", 1)
        if alpha != 1:
            found = emitter.named(written("mul", [found, constant(alpha, "float32")], "float32"))
        if _MATRICES[plain_name(value)] and beta != 0:
            added = emitter.operand(value.arguments[0], indices, "float32")
            if beta != 1:
                added = emitter.named(written("mul", [added, constant(beta, "float32")], "float32"))
            found = written("add", [found, added], "float32")
        return found
