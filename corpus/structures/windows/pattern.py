"""Pooling and depthwise convolutions, with element-wise operators before and after: each element reads its window.

Neighbouring elements read the same lines of the cache, so that memory is read about once.
"""

from __future__ import annotations

from functools import partial

from ....core.operator_graph import GraphValue, OperatorGraph
from ..elementwise import Scalar, computed, constant, written
from ..emitter import Emitter, Indices, RefusedError
from ..indices import Index
from ..pointwise.pattern import filled_elements
from ..region import WARPS, KernelWork, LaunchParameter, Region, Structure, WrittenKernel, kernel_name, powers
from .forms import Window, window_of

_LEAST, _START, _MOST = 64, 256, 2048


class Windows:
    """Writes elements of a region's windows."""

    def __init__(self, region: Region) -> None:
        self.emitter = Emitter(region.graph, region.inlined)
        self._inside = False
        found = [(value, window_of(region.graph, value)) for value in region.topological()]
        windows = [(value, window) for value, window in found if window is not None]
        if not windows:
            raise RefusedError("no window")
        for value, window in windows:
            self.emitter.anchors[value.name] = partial(self._element, value, window)

    def _element(self, value: GraphValue, window: Window, indices: Indices) -> Scalar:
        """Write one element of the result."""
        if self._inside:
            raise RefusedError("a window of elements that are windows themselves")
        self._inside = True
        try:
            return self._joined(value, window, indices)
        finally:
            self._inside = False

    def _joined(self, value: GraphValue, window: Window, indices: Indices) -> Scalar:
        rank, dtype = len(window.extents), computed(value.dtype)
        lead, places = indices[: len(indices) - rank], indices[len(indices) - rank :]
        total: Scalar | None = None
        count: list[str] = []
        for tap in window.taps:
            inner = tuple(
                place.times(stride).plus(step * dilation - padding)
                for place, stride, step, dilation, padding in zip(
                    places, window.stride, tap, window.dilation, window.padding, strict=True
                )
            )
            conditions = self._conditions(window, inner)
            if conditions is None:
                continue
            count.append(f"({' & '.join(conditions)})" if conditions else "1")
            for channel in range(window.channels):
                item = self._tap(value, window, (*lead, *inner), conditions, channel)
                if window.kind == "convolution":
                    weight = self.emitter.value(value.operands[1], (lead[-1], Index((), channel), *map(_number, tap)))
                    item = written("mul", [item, weight], dtype)
                join = "maximum" if window.kind == "max" else "add"
                total = self.emitter.named(item if total is None else written(join, [total, item], dtype))
        if total is None:
            raise RefusedError("windows outside of their operand")
        return self._finished(value, window, lead, total, count)

    def _conditions(self, window: Window, inner: Indices) -> list[str] | None:
        """Return under which conditions an element is within the operand; None if it never is."""
        found = list[str]()
        for index, size in zip(inner, window.operand.shape[-len(inner) :], strict=True):
            if index.most < 0 or index.least >= size:
                return None
            found += [f"({index.text} >= 0)"] if index.least < 0 else []
            found += [f"({index.text} < {size})"] if index.most >= size else []
        return found

    def _tap(self, value: GraphValue, window: Window, indices: Indices, conditions: list[str], channel: int) -> Scalar:
        """Return one element of the operand, or the neutral element outside of it."""
        if window.kind == "convolution":
            place = len(value.shape) - len(window.extents) - 1
            own = indices[place].over(window.group).times(window.channels).plus(channel)
            indices = (*indices[:place], own, *indices[place + 1 :])
        with self.emitter.masked(*conditions):
            item = self.emitter.value(window.operand.name, indices).to(value.dtype)
        if not conditions or (item.loaded is not None and window.kind != "max"):
            return item
        neutral = constant("-inf" if window.kind == "max" else 0, value.dtype)
        chosen = written("where", [Scalar(" & ".join(conditions), "bool"), item, neutral], value.dtype)
        return self.emitter.named(chosen)

    def _finished(self, value: GraphValue, window: Window, lead: Indices, total: Scalar, count: list[str]) -> Scalar:
        """Return the average of a sum, or a convolution's sum with its bias."""
        dtype = computed(value.dtype)
        if window.kind == "avg":
            if window.divisor is not None:
                return written("mul", [total, constant(1 / window.divisor, dtype)], dtype)
            inside = " + ".join(f"{item}.to(tl.float32)" if item != "1" else item for item in count)
            return Scalar(f"{total.text} / ({inside})", dtype)
        bias = value.arguments[2] if window.kind == "convolution" else None
        if bias is None:
            return total
        return written("add", [total, self.emitter.operand(bias, lead[-1:], dtype)], dtype)


def _number(item: int) -> Index:
    return Index((), item)


def is_window(graph: OperatorGraph, value: GraphValue) -> bool:
    """Return whether a value is pooled, or a convolution of few elements each."""
    return window_of(graph, value) is not None


def write(region: Region) -> WrittenKernel:
    """Return the kernel of a region."""
    emitter, name = Windows(region).emitter, kernel_name(region, "windows")
    source = filled_elements(region, emitter, name)
    return WrittenKernel(
        structure="windows",
        name=name,
        source=source,
        buffers=tuple(emitter.buffers),
        stored=region.stored,
        grid=(f"triton.cdiv({region.value.size}, XBLOCK)",),
        parameters={
            "XBLOCK": LaunchParameter(_START, powers(_LEAST, _MOST)),
            WARPS: LaunchParameter(4, (1, 2, 4, 8)),
        },
        work=KernelWork(float(len(emitter.lines)) * region.value.size),
    )


STRUCTURE = Structure("windows", write, is_window, in_library=True)
