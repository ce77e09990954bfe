"""Running sums and products along a dimension, with element-wise operators before, between and after them."""

from __future__ import annotations

from functools import partial
from math import log2

from ....core.dynamic_size import typical
from ....core.operator_graph import GraphValue, OperatorGraph
from ..elementwise import DTYPES, Scalar, computed, triton_name
from ..emitter import Indices, RefusedError
from ..region import (
    WARPS,
    KernelWork,
    LaunchParameter,
    Region,
    Structure,
    WrittenKernel,
    filled,
    kernel_name,
    power_above,
    powers,
)
from ..rows.pattern import Rows
from ..rows.reductions import RowReduction
from ..views import plain_name
from .template import TEMPLATE

_SCANS = {"cumsum": ("tl.cumsum", "+", 0), "cumprod": ("tl.cumprod", "*", 1)}
"""By operator, Triton's function, how parts of a row are joined, and what changes nothing."""
_MOST = 8192
"""Elements of a tile."""


class Scans:
    """Writes the scans of a region, which go along the same rows."""

    def __init__(self, region: Region) -> None:
        graph = region.graph
        self.scans = [value for value in region.topological() if is_scan(graph, value)]
        if not self.scans:
            raise RefusedError("no running sum or product")
        first = _along(graph, self.scans[0])
        if any((item := _along(graph, value)).width != first.width or item.rows != first.rows for value in self.scans):
            raise RefusedError("scans along rows of several lengths")
        self.rows = Rows(region, first)
        self.rows.tile = "[ROWS, COLUMNS]"
        self.first: list[str] = []
        for value in self.scans:
            self.rows.emitter.anchors[value.name] = partial(self._scanned, value)

    def _scanned(self, value: GraphValue, indices: Indices) -> Scalar:
        """Write the scan of the present part of a row."""
        rows, emitter = self.rows, self.rows.emitter
        along = _along(emitter.graph, value)
        element = along.element(rows.row, rows.column)
        if indices != element:
            raise RefusedError("a scan at another place than the result's")
        function, join, neutral = _SCANS[plain_name(value)]
        kind, carried = computed(value.dtype), f"{value.name}_before"
        self.first.append(f"{carried} = tl.full([ROWS, 1], {neutral}, {triton_name(kind)})")
        item = emitter.variable(rows.spread(emitter.value(along.operand.name, element).to(kind)).text)
        part = emitter.variable(f"tl.where(column_mask, {item}, {neutral})")
        found = emitter.variable(f"{function}({part}, 1) {join} {carried}")
        last = f"tl.where(place == COLUMNS - 1, {found}, 0)"
        emitter.lines.append(f"{carried} = tl.sum({last}, 1)[:, None]")
        return Scalar(found, kind)


def _along(graph: OperatorGraph, value: GraphValue) -> RowReduction:
    """Return the rows of a scan."""
    operand = graph.by_name[value.operands[0]]
    dimension = value.arguments[1] if len(value.arguments) > 1 else value.keywords["dim"]
    return RowReduction(value.name, "sum", operand, (int(dimension) % len(operand.shape),), kept=True)


def is_scan(graph: OperatorGraph, value: GraphValue) -> bool:
    """Return whether a value is a running sum or product."""
    known = plain_name(value) in _SCANS and bool(value.shape)
    return known and value.dtype in DTYPES and graph.by_name[value.operands[0]].dtype in DTYPES


def write(region: Region) -> WrittenKernel:
    """Return the kernel of a region."""
    scans = Scans(region)
    rows, emitter, name = scans.rows, scans.rows.emitter, kernel_name(region, "scans")
    if not all(rows.is_whole(stored) for stored in region.stored):
        raise RefusedError("a result of another size than the scan's")
    with emitter.block() as lines:
        for stored in region.stored:
            rows.store(stored)
        body = list(lines)
    trailing = rows.first.dimensions == (len(rows.first.operand.shape) - 1,)
    block = power_above(rows.width)
    most_rows = min(64, power_above(rows.count))
    columns = min(block, 2048 if trailing else 64)
    start = min(most_rows, max(1, 2048 // columns))
    return WrittenKernel(
        structure="scans",
        name=name,
        source=filled(
            TEMPLATE, emitter, {"first": scans.first, "body": body}, name=name, rows=rows.count, width=rows.width
        ),
        buffers=tuple(emitter.buffers),
        stored=region.stored,
        grid=(f"triton.cdiv({rows.count}, ROWS)",),
        parameters={
            "ROWS": LaunchParameter(start, powers(1, most_rows)),
            "COLUMNS": LaunchParameter(columns, powers(min(columns, 16), min(block, _MOST))),
            WARPS: LaunchParameter(4, (1, 2, 4, 8, 16)),
        },
        constraints=(f"ROWS * COLUMNS <= {_MOST}", f"ROWS * COLUMNS >= {min(block, 32)}"),
        work=KernelWork((len(body) + log2(max(2, columns))) * typical(rows.count * rows.width)),
    )


STRUCTURE = Structure("scans", write, is_scan, dynamic=True)
