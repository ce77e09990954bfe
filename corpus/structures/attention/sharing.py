"""Few queries over many keys: programs that share them, each with a part of the keys, and a launch that combines."""

from __future__ import annotations

from typing import Protocol

from ....core.operator_graph import GraphValue
from ..combining import Partials, alternative, second_launch
from ..elementwise import Scalar
from ..emitter import Anchor, Emitter, Indices
from ..indices import linear
from ..region import SPLITS, Region, SecondLaunch
from .space import AttentionSizes

_MOST, _TOTAL = 0, 1


class SharedAttention(AttentionSizes, Protocol):
    """The properties of an attention that sharing needs."""

    emitter: Emitter
    outer: GraphValue


def divided(
    region: Region, attention: SharedAttention, name: str, epilogue: list[str], total: str
) -> tuple[list[str], SecondLaunch]:
    """Return the lines after the loop, and the launch that combines the parts.

    `total` divides the sum of weighted values.
    """
    size = attention.groups * attention.queries
    sums = Partials(f"partials_{region.number}", [size, attention.features])
    rows = Partials(f"partial_rows_{region.number}", [size], 2)
    attention.emitter.buffers |= {item.name: item.pointer for item in (sums, rows)}
    row = f"(group * {attention.queries} + query)"
    stores = [
        rows.stored(row, "most", "query_mask", _MOST),
        rows.stored(row, "total", "query_mask", _TOTAL),
        sums.stored(f"{row} * {attention.features} + feature", "accumulator", "query_mask & feature_mask"),
    ]

    def combined(emitter: Emitter, indices: Indices) -> Scalar:
        shape = attention.outer.shape
        row, place = linear(indices[:-1], shape[:-1]), linear(indices, shape)
        emitter.lines.extend(
            [
                'most = tl.full([XBLOCK], float("-inf"), tl.float32)',
                f"for split in tl.static_range({SPLITS}):",
                f"    most = tl.maximum(most, {rows.loaded(emitter, row, _MOST)})",
                'finite = tl.where(most == float("-inf"), 0.0, most)',
                "total = tl.zeros([XBLOCK], tl.float32)",
                "accumulator = tl.zeros([XBLOCK], tl.float32)",
                f"for split in tl.static_range({SPLITS}):",
                f"    kept = tl.exp2(({rows.loaded(emitter, row, _MOST)} - finite) * 1.4426950408889634)",
                f"    total += kept * {rows.loaded(emitter, row, _TOTAL)}",
                f"    accumulator += kept * {sums.loaded(emitter, place)}",
            ]
        )
        return Scalar(emitter.variable(f"accumulator / {total}"), "float32")

    def anchors(emitter: Emitter) -> dict[str, Anchor]:
        return {attention.outer.name: lambda indices: combined(emitter, indices)}

    return alternative(epilogue, stores), second_launch(region, name, anchors, [sums, rows])
