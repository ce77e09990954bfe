"""Reductions over rows, such as softmax and norms, with element-wise operators before, between and after.

A row that fits into registers is read once. A longer row is read in passes: the first computes all reductions that need
no other reduction, the next those that need these, the last the result. A sum of exponentials is computed together with
the maximum that it needs (online), and a variance with its mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ....core.dynamic_size import is_dynamic, largest, typical
from ....core.operator_graph import GraphValue, OperatorGraph
from ..elementwise import FLOATS, Scalar, computed, triton_name
from ..emitter import Emitter, Indices, RefusedError
from ..indices import Index, Symbol, apart, linear
from ..region import (
    MULTIPROCESSORS,
    SPLITS,
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
    spanning,
)
from ..views import is_creation, is_view
from .reductions import RowReduction, exponential_sum, reduction_of
from .sharing import OR_NAN, SharedRows, can_share, splits
from .template import LOOP, ONE_PASS, PASSES, SHARE

IN_REGISTERS = 16384
"""Elements of a row that fit into the registers of one program."""
_NEUTRAL = {"sum": "0", "mean": "0", "var": "0", "amax": 'float("-inf")', "amin": 'float("inf")'}
_LEAST_OF_INTEGERS = {"int64": 2**63, "int32": 2**31, "int16": 2**15, "int8": 2**7, "uint8": 2**8, "bool": 1}


class Rows:
    """Writes the rows of a region."""

    def __init__(self, region: Region, first: RowReduction | None = None) -> None:
        """`first` gives the rows; without it, the first reduction does."""
        self.region = region
        self.emitter = Emitter(region.graph, region.inlined)
        found = [reduction_of(region.graph, value) for value in region.topological()]
        self.reductions = [item for item in found if item is not None]
        if not self.reductions and first is None:
            raise RefusedError("no reduction")
        self.first = first or self.reductions[0]
        self.count, self.width = self.first.rows, self.first.width
        if any((item.rows, item.width) != (self.count, self.width) for item in self.reductions):
            raise RefusedError("reductions over rows of several lengths")
        self.row = Symbol("row", self.count, frozenset({"row_mask"}))
        self.column = Symbol("column", self.width, frozenset({"column_mask"}))
        self.tile = f"[ROWS, {power_above(largest(self.width))}]"
        self.range: tuple[object, object] = (0, self.width)
        """The part of a row that a program computes."""

    def is_whole(self, name: str) -> bool:
        """Return whether a value has an element for each element of the rows, not one for each row."""
        size = self.region.graph.by_name[name].size
        if size not in (self.count * self.width, self.count):
            raise RefusedError("a result of another size than the rows")
        return size != self.count or self.width == 1

    def indices(self, name: str) -> Indices:
        """Return the indices of a stored value at an element of a row, or at a row."""
        shape = self.region.graph.by_name[name].shape
        if not self.is_whole(name):
            return apart(Index.of(self.row), shape)
        return apart(linear(self.first.element(self.row, self.column), self.first.operand.shape), shape)

    def store(self, name: str) -> None:
        """Store a value at the present rows."""
        indices = self.indices(name)
        item = self.emitter.value(name, indices)
        if self.is_whole(name):
            self.emitter.store(name, indices, self.spread(item), self.tile, ("row_mask", "column_mask"))
        else:
            self.emitter.store(name, indices, item, "[ROWS, 1]", ("row_mask",))

    def spread(self, item: Scalar) -> Scalar:
        """Return a value in the tile's shape."""
        if item.constant:
            return Scalar(f"tl.full({self.tile}, {item.text}, {triton_name(item.dtype)})", item.dtype)
        return Scalar(f"tl.broadcast_to({item.text}, {self.tile})", item.dtype)

    def masked(self, reduction: RowReduction, item: Scalar) -> str:
        """Return a reduction's operand in the tile's shape, neutral beyond the row's end."""
        kind = "float32" if item.dtype == "bool" and reduction.kind in ("mean", "var") else item.dtype
        if reduction.kind == "sum":
            kind = computed(self.region.graph.by_name[reduction.name].dtype)
        neutral = _NEUTRAL[reduction.kind]
        if "inf" in neutral and kind in _LEAST_OF_INTEGERS:
            bound = _LEAST_OF_INTEGERS[kind]
            neutral = str((0 if kind in ("uint8", "bool") else -bound) if reduction.kind == "amax" else bound - 1)
        text = self.emitter.variable(self.spread(item.to(kind)).text)
        return self.emitter.variable(f"tl.where(column_mask, {text}, {neutral})")

    def at_row(self, reduction: RowReduction, indices: Indices) -> None:
        """Refuse a reduction of another row than the present one."""
        if indices != reduction.result(self.row):
            raise RefusedError("a reduction of another row")

    def at_once(self, reduction: RowReduction, indices: Indices) -> Scalar:
        """Write a reduction of rows that are in registers."""
        self.at_row(reduction, indices)
        write, dtype = self.emitter.variable, computed(self.region.graph.by_name[reduction.name].dtype)
        item = self.emitter.value(reduction.operand.name, reduction.element(self.row, self.column))
        masked = self.masked(reduction, item)
        if reduction.kind in ("amax", "amin"):
            return Scalar(write(f"{self._extreme(reduction, masked, item.dtype)}[:, None]"), item.dtype).to(dtype)
        total = write(f"tl.sum({masked}, 1)[:, None]")
        if reduction.kind == "sum":
            return Scalar(total, dtype)
        mean = write(f"{total} / {self.width}")
        if reduction.kind == "mean":
            return Scalar(mean, dtype)
        distance = write(f"tl.where(column_mask, {masked} - {mean}, 0)")
        return Scalar(write(f"tl.sum({distance} * {distance}, 1)[:, None] / {self.freedom(reduction)}"), dtype)

    def _extreme(self, reduction: RowReduction, elements: str, dtype: str) -> str:
        """Return the maximum or minimum of rows, which is NaN where an element is.

        Beside a sum of exponentials that is NaN anyway.
        """
        beside = any(exponential_sum(self.region.graph, item) == reduction.name for item in self.reductions)
        if beside or dtype not in FLOATS:
            return f"tl.{reduction.kind[1:]}({elements}, 1)"
        return f"tl.reduce({elements}, 1, {OR_NAN[reduction.kind]})"

    def freedom(self, reduction: RowReduction) -> float:
        """Return what divides the sum of squares of a variance."""
        if is_dynamic(self.width) and reduction.correction:
            raise RefusedError("a variance with a correction over a size that is free")
        return self.width if is_dynamic(self.width) else max(0.0, self.width - reduction.correction)

    def sharing(self) -> LaunchParameter | None:
        """Return how many programs may share a row: where rows are few, one pass is enough, and all results small."""
        once = len(set(self._levels().values())) == 1 and can_share(self.region, self.reductions)
        if not once or any(self.is_whole(stored) for stored in self.region.stored):
            return None
        return splits(typical(self.count), typical(self.width))

    def in_passes(self) -> int:
        """Write all reductions as loops; return the number of passes."""
        results: dict[str, Scalar] = {}
        for reduction in self.reductions:
            self.emitter.anchors[reduction.name] = partial(self._known, reduction, results)
        levels = self._levels()
        for level in sorted(set(levels.values())):
            group = [item for item in self.reductions if levels[item.name] == level]
            self._loop_of(group, results)
        return len(set(levels.values()))

    def _known(self, reduction: RowReduction, results: dict[str, Scalar], indices: Indices) -> Scalar:
        self.at_row(reduction, indices)
        if reduction.name not in results:
            raise RefusedError("a reduction that needs a later one")
        return results[reduction.name]

    def _levels(self) -> dict[str, int]:
        """Return by reduction the pass that computes it: for a sum that is joined with its maximum, the maximum's."""
        graph, found = self.region.graph, dict[str, int]()
        depths: dict[str, int] = {}
        for value in graph.values:
            below = max((depths.get(name, 0) for name in value.operands), default=0)
            if value.name in self.region.inlined and reduction_of(graph, value) is not None:
                item = next(item for item in self.reductions if item.name == value.name)
                most = exponential_sum(graph, item)
                found[value.name] = found.get(most or "", below)
                depths[value.name] = found[value.name] + 1
            else:
                inside = value.name in self.region.inlined or not value.operands or _passes_through(graph, value)
                depths[value.name] = below if inside else 0
        return found

    def _loop_of(self, group: Sequence[RowReduction], results: dict[str, Scalar]) -> None:
        """Write one pass."""
        emitter, graph = self.emitter, self.region.graph
        joined = {exponential_sum(graph, item): item for item in group}
        names, after = {item.name for item in group}, list[str]()
        first: list[str] = []
        with emitter.block() as body:
            for item in group:
                most = exponential_sum(graph, item)
                if most in names:
                    continue  # written with its maximum
                self._accumulate(item, joined.get(item.name), first, after, results)
            inner = list(body)
        emitter.lines.extend(first)
        emitter.lines.extend(self.loop(inner))
        emitter.lines.extend(after)

    def loop(self, body: Sequence[str]) -> list[str]:
        """Return a loop over the parts of a row."""
        begin, end = self.range
        return filled(LOOP, self.emitter, {"body": body}, width=self.width, begin=begin, end=end).splitlines()

    def _accumulate(
        self,
        item: RowReduction,
        exponentials: RowReduction | None,
        first: list[str],
        after: list[str],
        results: dict[str, Scalar],
    ) -> None:
        emitter, name = self.emitter, item.name
        dtype = computed(self.region.graph.by_name[name].dtype)
        value = emitter.value(item.operand.name, item.element(self.row, self.column))
        masked = self.masked(item, value)
        kind = triton_name(dtype)
        results[name] = Scalar(name, dtype)
        if exponentials is not None:
            total = exponentials.name
            results[total] = Scalar(total, dtype)
            first += [f'{name} = tl.full([ROWS, 1], float("-inf"), {kind})', f"{total} = tl.zeros([ROWS, 1], {kind})"]
            emitter.lines.extend(
                [
                    f"{name}_next = tl.maximum({name}, tl.max({masked}, 1)[:, None])",
                    f'{name}_finite = tl.where({name}_next == float("-inf"), 0, {name}_next)',
                    f"{total} = {total} * tl.exp({name} - {name}_finite)"
                    f" + tl.sum(tl.exp({masked} - {name}_finite), 1)[:, None]",
                    f"{name} = {name}_next",
                ]
            )
            return
        if item.kind == "var":
            first += [f"{name}_{part} = tl.zeros([ROWS, 1], {kind})" for part in ("mean", "square")]
            before = "start" if self.range[0] == 0 else "(start - begin)"
            emitter.lines.extend(
                [
                    f"{name}_count = tl.minimum(COLUMNS, {self.width} - start)",
                    f"{name}_part = tl.sum({masked}, 1)[:, None] / {name}_count",
                    f"{name}_distance = tl.where(column_mask, {masked} - {name}_part, 0)",
                    f"{name}_delta = {name}_part - {name}_mean",
                    f"{name}_square += tl.sum({name}_distance * {name}_distance, 1)[:, None]"
                    f" + {name}_delta * {name}_delta * {before} * {name}_count / ({before} + {name}_count)",
                    f"{name}_mean += {name}_delta * {name}_count / ({before} + {name}_count)",
                ]
            )
            after.append(f"{name} = {name}_square / {self.freedom(item)}")
            return
        if item.kind in OR_NAN:
            if value.dtype not in ("float32", "float64"):
                raise RefusedError("the maximum of long rows of whole numbers")
            first.append(f"{name}_parts = tl.full({self.tile}, {_NEUTRAL[item.kind]}, {kind})")
            emitter.lines.append(f"{name}_parts = {OR_NAN[item.kind]}({name}_parts, {masked})")
            after.append(f"{name} = {self._extreme(item, f'{name}_parts', value.dtype)}[:, None]")
            return
        first.append(f"{name}_parts = tl.zeros({self.tile}, {kind})")
        emitter.lines.append(f"{name}_parts += {masked}")
        share = f" / {self.width}" if item.kind == "mean" else ""
        after.append(f"{name} = tl.sum({name}_parts, 1)[:, None]{share}")


def _passes_through(graph: OperatorGraph, value: GraphValue) -> bool:
    return is_view(graph, value) or is_creation(value)


def write(region: Region) -> WrittenKernel:
    """Return the kernel of a region."""
    rows = Rows(region)
    emitter, name = rows.emitter, kernel_name(region, "rows")
    block, second = 2 * IN_REGISTERS if is_dynamic(rows.width) else power_above(rows.width), None
    trailing = rows.first.dimensions == tuple(range(len(rows.first.others), len(rows.first.operand.shape)))
    if block <= IN_REGISTERS:
        for item in rows.reductions:
            emitter.anchors[item.name] = partial(rows.at_once, item)
        for stored in region.stored:
            rows.store(stored)
        body = emitter.lines
        source = filled(ONE_PASS, emitter, {"body": body}, name=name, rows=rows.count, width=rows.width, block=block)
        most = max(1, IN_REGISTERS // block)
        start = min(most, 64, max(1, (2048 if trailing else 8192) // block), power_above(rows.count))
        parameters = {"ROWS": LaunchParameter(start, powers(1, min(most, 64, 4 * start)))}
        passes = 1
        tile = start * block
    else:
        rows.tile, shared, share = "[ROWS, COLUMNS]", rows.sharing(), list[str]()
        if shared is not None:
            rows.range, share = ("begin", "end"), filled(SHARE, emitter, {}, width=rows.width).splitlines()
        passes = rows.in_passes() + 1
        whole = [stored for stored in region.stored if rows.is_whole(stored)]
        with emitter.block() as lines:
            for stored in region.stored:
                if stored not in whole:
                    rows.store(stored)
            results = list(lines)
        if shared is not None:
            parts = SharedRows(region, rows.reductions, {item.name: rows.freedom(item) for item in rows.reductions})
            results, second = parts.divided(emitter, name, results)
        emitter.lines.extend(results)
        if whole:
            with emitter.block() as inner:
                for stored in whole:
                    rows.store(stored)
                lines = list(inner)
            emitter.lines.extend(rows.loop(lines))
        body, more = emitter.lines, f", {SPLITS}: tl.constexpr" if second else ""
        source = filled(PASSES, emitter, {"body": body, "share": share}, name=name, rows=rows.count, more=more)
        parameters = {"ROWS": LaunchParameter(1, (1, 2)), "COLUMNS": LaunchParameter(4096, powers(1024, 16384))}
        if shared is not None:
            parameters[SPLITS] = shared
        tile = 4096
    # Rows fewer than multiprocessors leave the others, and their part of the memory's rate, without work.
    idle = 1.0 if second or block <= IN_REGISTERS else max(1.0, MULTIPROCESSORS / typical(rows.count))
    warps = min(16, max(1, tile // 512))
    parameters[WARPS] = LaunchParameter(warps, powers(max(1, warps // 2), min(32, warps * 4)))
    return WrittenKernel(
        structure="rows",
        name=name,
        source=source,
        buffers=tuple(emitter.buffers),
        stored=region.stored,
        grid=(f"triton.cdiv({rows.count}, ROWS)", *([SPLITS] if second else [])),
        parameters=parameters,
        constraints=(f"ROWS * COLUMNS <= {IN_REGISTERS}",) if "COLUMNS" in parameters else (),
        work=KernelWork(
            float(spanning(body, ["column"])) * typical(rows.count * rows.width), passes=(1 + (passes - 1) * 0.5) * idle
        ),
        second=second,
    )


STRUCTURE = Structure("rows", write, anchors=lambda graph, value: reduction_of(graph, value) is not None, dynamic=True)
