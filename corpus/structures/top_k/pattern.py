"""The largest or smallest elements of short rows, as in routers of experts, and what computes the rows."""

from __future__ import annotations

from functools import partial

from ....core.dynamic_size import largest, typical
from ....core.operator_graph import GraphValue, OperatorGraph
from ..elementwise import Scalar, computed
from ..emitter import RefusedError
from ..indices import Index, Symbol
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
from ..rows.reductions import RowReduction, reduction_of
from ..views import plain_name
from .template import TEMPLATE

LONGEST, MOST = 2048, 32
"""Elements of a row, and of those that are chosen."""


def write(region: Region) -> WrittenKernel:
    """Return the kernel of a region."""
    graph, value = region.graph, region.value
    if plain_name(value) != "topk" or region.stores:
        raise RefusedError("no choice of the largest elements")
    operand = graph.by_name[value.operands[0]]
    given = [*value.arguments[1:], *[None] * 4]
    count, dimension = int(given[0]), given[1] if given[1] is not None else value.keywords.get("dim", -1)
    descending = value.keywords.get("largest", given[2] if given[2] is not None else True)
    dimension %= len(operand.shape)
    if largest(operand.shape[dimension]) > LONGEST or not 0 < count <= MOST:
        raise RefusedError(f"the choice of {count} of {operand.shape[dimension]} elements")
    if computed(operand.dtype) != "float32":
        raise RefusedError(f"the choice of elements of {operand.dtype}")
    rows = Rows(region, RowReduction(value.name, "amax", operand, (dimension,), kept=True))
    emitter, block = rows.emitter, power_above(largest(rows.width))
    for item in rows.reductions:
        emitter.anchors[item.name] = partial(rows.at_once, item)
    elements = rows.spread(emitter.value(operand.name, rows.first.element(rows.row, rows.column)))
    emitter.lines.append(f"elements = {elements.text}")
    body = list(emitter.lines)
    parts = {int(graph.by_name[user].arguments[1]): user for user in graph.users[value.name]}
    place = Index.of(Symbol("place", count))
    indices = tuple(place if axis == dimension else index for axis, index in enumerate(rows.first.result(rows.row)))
    with emitter.block() as lines:
        if 0 in parts:
            emitter.store(
                parts[0],
                indices,
                Scalar("value", "float32"),
                "[ROWS, 1]",
                ("row_mask",),
                spread=True,
            )
        if 1 in parts:
            emitter.store(
                parts[1], indices, Scalar("chosen.to(tl.int64)", "int64"), "[ROWS, 1]", ("row_mask",), spread=True
            )
        stores = list(lines)
    name = kernel_name(region, "top_k")
    start = max(1, min(2048 // block, power_above(rows.count)))
    return WrittenKernel(
        structure="top_k",
        name=name,
        source=filled(
            TEMPLATE,
            emitter,
            {"body": body, "stores": stores},
            name=name,
            rows=rows.count,
            width=rows.width,
            block=block,
            count=count,
            sign="" if descending else "~",
        ),
        buffers=tuple(emitter.buffers),
        stored=tuple(parts.values()),
        grid=(f"triton.cdiv({rows.count}, ROWS)",),
        parameters={
            "ROWS": LaunchParameter(start, powers(max(1, start // 8), start * 4)),
            WARPS: LaunchParameter(4, (1, 2, 4, 8)),
        },
        constraints=(f"ROWS * {block} <= {WARPS} * 32 * 64",),
        work=KernelWork(float(len(body) + 6 * count) * typical(rows.count * rows.width)),
    )


def is_anchor(graph: OperatorGraph, value: GraphValue) -> bool:
    """Return whether a value is a choice of the largest elements, or a reduction before it."""
    return plain_name(value) == "topk" or reduction_of(graph, value) is not None


STRUCTURE = Structure("top_k", write, is_anchor, dynamic=True, in_library=True)
