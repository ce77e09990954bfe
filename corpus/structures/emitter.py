"""Writes the elements of a graph's values as Triton code: arrangements, gathers and element-wise operators.

A template asks for a value at an index, in its own symbols, and gets the name of a variable; the lines that compute it
stand before. What the template computes itself (a sum over a row, an accumulator) is an anchor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

from ...core.dynamic_size import DynamicSize, largest, smallest
from ...core.operator_graph import INPUT, WEIGHT, GraphValue, OperatorGraph, referenced
from .elementwise import (
    CONVERSIONS,
    DTYPES,
    FLOATS,
    INTEGERS,
    Scalar,
    computed,
    constant,
    is_elementwise,
    triton_name,
    written,
)
from .indices import Index, Symbol, broadcast, linear, masks_of
from .lines import WIDE, KernelLines
from .views import is_creation, is_view, plain_name, source

GATHERS = ("index", "gather", "embedding", "index_select")
"""Operators that read elements at indices which are values."""
JOINED = ("cat", "constant_pad_nd")
Indices = tuple[Index, ...]
Anchor = Callable[[Indices], Scalar]


class RefusedError(Exception):
    """A structure cannot compute a value; the text says why."""


def is_inlinable(graph: OperatorGraph, value: GraphValue) -> bool:
    """Return whether an element of a value can be computed from elements of its operands."""
    operator = plain_name(value)
    return (
        value.dtypes[:1] != ()
        and all(dtype in DTYPES for dtype in value.dtypes)
        and (
            is_view(graph, value)
            or is_creation(value)
            or operator in (*GATHERS, *JOINED)
            or (is_elementwise(operator) and len(value.shapes) == 1)
            or operator == "rsub"
        )
    )


class Emitter(KernelLines):
    """Writes one kernel's values. `inlined` are those that the kernel computes; it loads all others."""

    def __init__(self, graph: OperatorGraph, inlined: frozenset[str]) -> None:
        super().__init__(graph)
        self._inlined = inlined
        self.anchors: dict[str, Anchor] = {}

    def value(self, name: str, indices: Indices) -> Scalar:
        """Return an element of a value. Raises `RefusedError`."""
        key = (name, indices, self.masks)
        known = self.known(key)
        if known is not None:
            return known
        found = self.named(self._value(self.graph.by_name[name], indices))
        self.remember(key, found)
        return found

    def tile(self, name: str, indices: Indices, shape: str) -> str:
        """Return elements of a value as an operand of a product: in the value's dtype, zero outside of it."""
        item, dtype = self.value(name, indices), self.graph.by_name[name].dtype
        if item.constant:
            text = f"tl.full({shape}, {item.text}, {triton_name(dtype)})"
            return self.variable(f"tl.where({' & '.join(self.masks)}, {text}, 0.0)" if self.masks else text)
        if item.loaded is not None and item.dtype == computed(dtype):
            text = item.loaded if item.source == dtype else f"{item.loaded}.to({triton_name(dtype)})"
        else:
            text = f"({item.text}).to({triton_name(dtype)})"
            mask = " & ".join(sorted({*masks_of(indices), *self.masks}))
            text = f"tl.where({mask}, {text}, 0.0)" if mask else text
        return self.variable(f"tl.broadcast_to({text}, {shape})")

    def _value(self, value: GraphValue, indices: Indices) -> Scalar:
        if value.name in self.anchors:
            return self.anchors[value.name](indices)
        if is_view(self.graph, value) and value.operator not in (INPUT, WEIGHT):
            try:
                name, inner = source(self.graph, value, indices)
            except KeyError as form:
                raise RefusedError(f"{value.operator} in the form {form}") from None
            return self.value(name, inner)
        if value.dtype not in DTYPES:
            raise RefusedError(f"the dtype {value.dtype}")
        if is_creation(value):
            return self._created(value, indices)
        if value.name not in self._inlined:
            return self.load(value.name, linear(indices, value.shape), value.dtype)
        operator = plain_name(value)
        if operator in JOINED:
            return self._joined(value, indices)
        if operator in GATHERS:
            return self._gathered(value, indices)
        try:
            return self._elementwise(value, operator, indices)
        except KeyError:
            raise RefusedError(f"the operator {value.operator}") from None

    def operand(self, argument: object, indices: Indices, dtype: str) -> Scalar:
        """Return an operand of an element-wise operator at the index of its result, or a number in a dtype."""
        name = referenced(argument)
        if name is None:
            if argument is None:
                return Scalar("None", dtype, constant=True)
            if isinstance(argument, float) and dtype not in FLOATS:
                dtype = "float32"
            return self._number(argument, dtype)
        return self.value(name, broadcast(indices, self.graph.by_name[name].shape))

    def _number(self, number: object, dtype: str) -> Scalar:
        """Return a number, or a free size, in a dtype."""
        if not isinstance(number, DynamicSize):
            return constant(number, dtype)
        size, wanted = cast("int", number), computed(dtype)
        if wanted == "bool" or largest(size) >= WIDE or smallest(size) < -WIDE:
            raise RefusedError("a size beyond 2^31, or as a flag, among elements")
        item = Scalar(f"tl.full([1], {size}, {triton_name(wanted)})", wanted)
        return self.named(item if wanted in FLOATS else replace(item, index=Index((), size)))

    def _elementwise(self, value: GraphValue, operator: str, indices: Indices) -> Scalar:
        given = list(value.arguments)
        if operator in CONVERSIONS:
            given = given[:1]
        if operator == "clamp":
            given = [*given, None, None][:3]
            given = [given[0], value.keywords.get("min", given[1]), value.keywords.get("max", given[2])]
        if operator == "rsub":
            operator, given = "sub", [given[1], given[0], *given[2:]]
        rounding = value.keywords.get("rounding_mode")
        alpha = value.keywords.get("alpha", 1)
        dtypes = [self.graph.by_name[name].dtype for name in value.operands]
        common = value.dtype if value.dtype != "bool" or not dtypes else max(dtypes, key=lambda kind: kind in FLOATS)
        scalars = [self.operand(item, indices, common) for item in given]
        if alpha != 1 and operator in ("add", "sub"):
            scalars[1] = self.named(written("mul", [scalars[1], constant(alpha, value.dtype)], value.dtype))
        if (
            value.dtype == "bool"
            and len(scalars) == 2
            and (first := _whole(scalars[0]))
            and (other := _whole(scalars[1]))
        ):
            scalars = [Scalar(f"({index.text})", "int32") for index in (first, other)]  # narrower than torch's
        if scalars[0].text and all(item.constant for item in scalars):  # Triton's functions take no Python numbers
            kind = scalars[0].dtype
            scalars[0] = Scalar(f"tl.full([1], {scalars[0].text}, {triton_name(kind)})", kind)
        found = written(operator, scalars, value.dtype, rounding)
        return replace(found, index=_index_of(operator, scalars)) if value.dtype in INTEGERS else found

    def _created(self, value: GraphValue, indices: Indices) -> Scalar:
        operator, given = plain_name(value), value.arguments
        match operator:
            case "arange":
                start, step = (given[0] if len(given) > 1 else 0), (given[2] if len(given) > 2 else 1)
                if not isinstance(start, int) or not isinstance(step, int):
                    raise RefusedError("arange of floats")
                index = indices[0].times(step).plus(start)
                dtype = value.dtype if value.dtype in INTEGERS else "int32"
                return replace(Scalar(f"({index.text})", "int32", index=index).to(dtype), index=index).to(value.dtype)
            case "full" | "full_like" | "scalar_tensor":
                return self._number(given[operator != "scalar_tensor"], value.dtype)
            case "ones" | "ones_like":
                return constant(1, value.dtype)
            case "zeros" | "zeros_like":
                return constant(0, value.dtype)
        raise RefusedError(f"the operator {value.operator}")

    def _joined(self, value: GraphValue, indices: Indices) -> Scalar:
        """Return an element of tensors side by side, or of a tensor in a frame."""
        if plain_name(value) == "constant_pad_nd":
            return self._padded(value, indices)
        parts = [name for item in value.arguments[0] if (name := referenced(item))]
        parts = [name for name in parts if self.graph.by_name[name].shape != (0,)]
        dimension = (value.arguments[1] if len(value.arguments) > 1 else 0) % len(value.shape)
        index, start, found = indices[dimension], 0, None
        pieces: list[tuple[int, int, str]] = []
        for name in parts:
            size = self.graph.by_name[name].shape[dimension]
            if index.most >= start and index.least < start + size:
                pieces.append((start, start + size, name))
            start += size
        for begin, end, name in reversed(pieces):
            inner = (*indices[:dimension], index.plus(-begin), *indices[dimension + 1 :])
            if len(pieces) == 1:
                return self.value(name, inner).to(value.dtype)
            above, below = f"({index.text} >= {begin})", f"({index.text} < {end})"
            if end - begin == 1:  # any index stands for this element
                conditions: list[str] = []
                inner = (*indices[:dimension], Index(), *indices[dimension + 1 :])
            else:
                conditions = [*([above] if index.least < begin else []), *([below] if index.most >= end else [])]
            with self.masked(*conditions):
                item = self.value(name, inner).to(value.dtype)
            found = item if found is None else written("where", [Scalar(below, "bool"), item, found], value.dtype)
            found = self.named(found)
        assert found is not None
        return found

    def _padded(self, value: GraphValue, indices: Indices) -> Scalar:
        name = value.operands[0]
        widths = list(value.arguments[1])
        inner, conditions = list(indices), []
        for place, size in enumerate(self.graph.by_name[name].shape):
            back = 2 * (len(indices) - 1 - place)
            before = widths[back] if back < len(widths) else 0
            inner[place] = indices[place].plus(-before)
            if inner[place].least < 0:
                conditions.append(f"({indices[place].text} >= {before})")
            if inner[place].most >= size:
                conditions.append(f"({indices[place].text} < {before + size})")
        with self.masked(*conditions):
            item = self.value(name, tuple(inner)).to(value.dtype)
        if not conditions:
            return item
        fill = constant(value.arguments[2] if len(value.arguments) > 2 else 0, value.dtype)
        return written("where", [Scalar(" & ".join(conditions), "bool"), item, fill], value.dtype)

    def _gathered(self, value: GraphValue, indices: Indices) -> Scalar:
        """Return an element of a tensor at indices that are elements of others."""
        operator, given = plain_name(value), value.arguments
        table = self.graph.by_name[value.operands[0]]
        if operator == "embedding":
            places = {0: self.value(value.operands[1], indices[:-1])}
            rest = indices[-1:]
        elif operator in ("gather", "index_select"):
            dimension = given[1] % len(table.shape)
            chosen = indices if operator == "gather" else indices[dimension : dimension + 1]
            places = {dimension: self.value(value.operands[1], chosen)}
            rest = (*indices[:dimension], *indices[dimension + 1 :])
        else:
            places, rest = self._indexed(value, table, indices)
        masks, left = masks_of(indices) | frozenset(self.masks), iter(rest)
        found = tuple(
            self._place(places[place], size, masks) if place in places else next(left)
            for place, size in enumerate(table.shape)
        )
        return self.value(table.name, found)

    def _indexed(self, value: GraphValue, table: GraphValue, indices: Indices) -> tuple[dict[int, Scalar], Indices]:
        names = [referenced(item) for item in value.arguments[1]]
        used = [place for place, name in enumerate(names) if name]
        if used != list(range(used[0], used[-1] + 1)):
            raise RefusedError("indices in dimensions that are apart")
        if any(self.graph.by_name[name].dtype == "bool" for name in names if name):
            raise RefusedError("an index of flags")
        rank = len(value.shape) - (len(table.shape) - len(used))
        inner = indices[used[0] : used[0] + rank]
        places = {place: self.operand(value.arguments[1][place], inner, "int64") for place in used}
        return places, (*indices[: used[0]], *indices[used[0] + rank :])

    def _place(self, item: Scalar, size: int, masks: frozenset[str]) -> Index:
        if item.index is not None and item.index.least >= 0:
            return item.index
        text = self.variable(f"tl.where({item.text} < 0, {item.text} + {size}, {item.text})")
        return Index.of(Symbol(text, size, masks))


def _index_of(operator: str, given: Sequence[Scalar]) -> Index | None:
    """Return an integer value as a sum of indices, if it is one."""
    known = [_whole(item) for item in given]
    if operator in CONVERSIONS and known:
        return known[0]
    if len(known) < 2 or known[0] is None or known[1] is None:
        return None
    match operator:
        case "add":
            return known[0].plus(known[1])
        case "sub":
            return known[0].plus(known[1].times(-1))
        case "mul" if not known[1].terms:
            return known[0].times(known[1].offset)
    return None


def _whole(item: Scalar) -> Index | None:
    """Return a scalar that is a sum of indices, or an integer, as such a sum."""
    if item.index is not None:
        return item.index
    return Index((), int(item.text)) if item.constant and item.text.lstrip("-").isdigit() else None
