"""Attention: torch's operator, or two products with a softmax between them, with any operations on the scores."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from math import prod, sqrt

from ....core.dynamic_size import divides, is_dynamic, typical
from ....core.operator_graph import GraphValue, OperatorGraph, referenced
from ..elementwise import FLOATS, Scalar, triton_name
from ..emitter import Emitter, Indices, RefusedError
from ..indices import Index, Symbol, apart, broadcast, linear
from ..region import SPLITS, KernelWork, Region, Structure, WrittenKernel, filled, kernel_name, power_above, spanning
from ..rows.reductions import reduction_of
from ..views import plain_name
from .sharing import divided
from .softmax import Softmax, softmax_of
from .space import LARGEST_TILE, space
from .template import SHARE, TEMPLATE
from .visible import ALWAYS, KEY, QUERY, Condition, Hidden, Masks, bounds, covers_rows

_WHOLE = "scaled_dot_product_attention"
_LARGEST_HEAD = 256
_FEW_QUERIES = 16
"""Maximum number of queries for which heads that share keys are put into one tile."""


def _block(size: int) -> int:
    """Return the extent of a tile that holds a head."""
    return max(16, power_above(size))


class Attention:
    """Writes the attention of a region."""

    def __init__(self, region: Region, heads: int = 1) -> None:
        """With few queries, the tile's rows are those of so many `heads`, which share keys."""
        self.region, self.graph, self.heads = region, region.graph, heads
        self.emitter = Emitter(region.graph, region.inlined)
        self._scratch = Emitter(region.graph, region.inlined)
        values = region.topological()
        whole = [value for value in values if plain_name(value) == _WHOLE]
        products = [value for value in values if plain_name(value) == "bmm"]
        if len(whole) == 1 and not products:
            self.outer, self.softmax = whole[0], None
            self._read_whole(whole[0])
        elif len(products) == 2 and not whole:
            self.outer = products[1]
            self.softmax = softmax_of(self.graph, str(referenced(products[1].arguments[0])))
            if self.softmax is None or not self.softmax.inside <= region.inlined:
                raise RefusedError("no softmax between two products")
            self._read_products(products[0], products[1], self.softmax)
        else:
            raise RefusedError("not one attention")
        reductions = [value.name for value in values if reduction_of(self.graph, value) is not None]
        if not set(reductions) <= (self.softmax.inside if self.softmax else frozenset()):
            raise RefusedError("another reduction")
        if max(self.depth, self.features) > _LARGEST_HEAD:
            raise RefusedError(f"heads of more than {_LARGEST_HEAD}")
        if self.dtype not in FLOATS or self.dtype == "float64" or self.dtype.startswith("float8"):
            raise RefusedError(f"products of {self.dtype}")

    def _symbols(self, groups: int, queries: int, keys: int, depth: int, features: int) -> None:
        """Name the kernel's indices."""

        def symbol(text: str, extent: int, even: bool) -> Index:
            masks = frozenset[str]() if even else frozenset({f"{text}_mask"})
            return Index() if extent == 1 else Index.of(Symbol(text, extent, masks))

        if 1 in (keys, depth, features):
            raise RefusedError("attention to one key, or over heads of one")
        if is_dynamic(depth) or is_dynamic(features):
            raise RefusedError("heads of a size that is free")

        rows = self.heads * queries
        self.groups, self.queries = groups // self.heads, rows
        self.keys, self.depth, self.features = keys, depth, features
        self.even_keys = divides(LARGEST_TILE, keys)
        self.group = symbol("group", self.groups, even=True)
        self.query = symbol(QUERY, rows, divides(LARGEST_TILE, rows))
        if self.heads > 1:
            head, self.query = self.query.over(queries), self.query.modulo(queries)
            self.group = self.group.times(self.heads).plus(head)
        self.key, self.key_row = (symbol(text, keys, self.even_keys) for text in (KEY, "key_row"))
        self.query_shape, self.key_shape = f"[BLOCK_M, {_block(depth)}]", f"[{_block(depth)}, BLOCK_N]"
        self.value_shape, self.result_shape = f"[BLOCK_N, {_block(features)}]", f"[BLOCK_M, {_block(features)}]"
        even = power_above(depth) == depth and depth >= 16
        self.depth_column, self.depth_row = (symbol(f"depth_{text}", depth, even) for text in ("column", "row"))
        self.feature = symbol("feature", features, power_above(features) == features and features >= 16)

    def _read_whole(self, value: GraphValue) -> None:
        """Take the parts of torch's operator."""
        given = [*value.arguments, *[None] * (6 - len(value.arguments))]
        query, key, values = (self.graph.by_name[str(referenced(item))] for item in given[:3])
        mask = value.keywords.get("attn_mask", given[3])
        if value.keywords.get("dropout_p", given[4] or 0.0):
            raise RefusedError("dropout")
        causal = value.keywords.get("is_causal", given[5] or False)
        shared = value.keywords.get("enable_gqa", False)
        lead = value.shape[:-2]
        self._symbols(prod(lead), value.shape[-2], key.shape[-2], query.shape[-1], value.shape[-1])
        self.dtype, scale = query.dtype, value.keywords.get("scale")
        scale = 1 / sqrt(self.depth) if scale is None else float(scale)
        places = apart(self.group, lead)
        self.anchor_index: Indices = (*places, self.query, self.feature)

        def at(item: GraphValue, shape: str, *last: Index) -> str:
            own = list(places)
            if shared and len(item.shape) > 2:
                own[-1] = own[-1].over(value.shape[-3] // item.shape[-3])
            kept = own[len(own) - len(item.shape) + 2 :]
            first = (Index() if size == 1 else index for index, size in zip(kept, item.shape, strict=False))
            return self.emitter.tile(item.name, (*first, *last), shape)

        self.query_tile: Callable[[], str] = lambda: at(query, self.query_shape, self.query, self.depth_column)
        self.key_tile: Callable[[], str] = lambda: at(key, self.key_shape, self.key, self.depth_row)
        self.value_tile: Callable[[], str] = lambda: at(values, self.value_shape, self.key_row, self.feature)
        full = (*places, self.query, self.key)

        def score(product: str) -> str:
            text = self.emitter.variable(f"{product} * {scale!r}")
            if mask is not None:
                item = self.emitter.operand(mask, full, "float32")
                masked = item.dtype == "bool"
                text = f'tl.where({item.text}, {text}, float("-inf"))' if masked else f"{text} + {item.text}"
                text = self.emitter.variable(text)
            return (
                self.emitter.variable(f'tl.where({self.query.text} >= key, {text}, float("-inf"))') if causal else text
            )

        self.score: Callable[[str], str] = score
        diagonal = Condition("sum", self.query.plus(self.key.times(-1)))
        self.hidden = Hidden(diagonal if causal else ALWAYS)
        name = referenced(mask)
        if name is not None and not causal:
            masks, shape = Masks(self._scratch), self.graph.by_name[name].shape
            indices = broadcast(full, shape)
            flags = self.graph.by_name[name].dtype == "bool"
            self.hidden = Hidden(masks.condition(mask, indices)) if flags else masks.of_scores(name, indices)

    def _read_products(self, inner: GraphValue, outer: GraphValue, softmax: Softmax) -> None:
        """Take the parts of two products and the softmax between them."""
        first, second, values = (
            self.graph.by_name[str(referenced(item))] for item in (*inner.arguments[:2], outer.arguments[1])
        )
        groups, queries, features = outer.shape
        self._symbols(groups, queries, values.shape[1], first.shape[2], features)
        self.dtype = first.dtype
        self.anchor_index = self.group, self.query, self.feature
        weights = self._reached(
            str(referenced(outer.arguments[0])), softmax.weights, (self.group, self.query, self.key)
        )
        place = self._reached(softmax.scores, inner.name, weights)
        if place[1:] != (self.query, self.key):
            raise RefusedError("a softmax over something else than the keys")
        self.query_tile = lambda: self.emitter.tile(
            first.name, (place[0], self.query, self.depth_column), self.query_shape
        )
        self.key_tile = lambda: self.emitter.tile(second.name, (place[0], self.depth_row, self.key), self.key_shape)
        self.value_tile = lambda: self.emitter.tile(
            values.name, (self.group, self.key_row, self.feature), self.value_shape
        )

        def score(product: str) -> str:
            self.emitter.anchors[inner.name] = lambda indices: Scalar(product, "float32")
            item = self.emitter.value(softmax.scores, weights).to("float32")
            return self.emitter.variable(f"tl.broadcast_to({item.text}, [BLOCK_M, BLOCK_N])")

        self.score = score
        self.hidden = Masks(self._scratch).of_scores(softmax.scores, weights)

    def _reached(self, name: str, anchor: str, indices: Indices) -> Indices:
        """Return the index of an anchor that an element of a value reads."""
        found: list[Indices] = []

        def note(place: Indices) -> Scalar:
            found.append(place)
            return Scalar("anchor", "float32")

        self._scratch.anchors[anchor] = note
        self._scratch.value(name, indices)
        if len(set(found)) != 1:
            raise RefusedError("scores that are mixed with others")
        return found[0]

    def limits(self) -> tuple[str, str]:
        """Return the range of keys that a tile of queries may see, without its end."""
        lower, upper = bounds(self.hidden.condition)
        if not self.hidden.infinite and not covers_rows(self.hidden.condition, self.queries, self.keys):
            lower = upper = None
        begin = f"tl.maximum({lower}, 0) // BLOCK_N * BLOCK_N" if lower is not None else "0"
        return begin, f"tl.minimum({upper}, {self.keys})" if upper is not None else str(self.keys)

    def sees_the_same(self) -> bool:
        """Return whether all queries see the same keys except the newest, so that no tile skips more blocks."""
        begin, end = self.limits()
        by_query = re.search(r"\b(first|last)\b", f"{begin} {end}")
        newest = Index((), self.keys - self.queries)
        return by_query is None or (begin == "0" and self.hidden.condition.shows(Index(), newest))

    def shares_keys(self) -> bool:
        """Return whether keys and values are the same for all rows of a tile."""
        with self.emitter.block() as lines:
            self.key_tile()
            self.value_tile()
            return not re.search(rf"\b{QUERY}\b", "\n".join(lines))


def _attention_of(region: Region) -> Attention:
    """Return a region's attention; with few queries, with the most heads in a tile that share keys."""
    found = Attention(region)
    few = isinstance(found.queries, int) and found.queries <= _FEW_QUERIES and found.sees_the_same()
    for heads in range(min(typical(found.groups), LARGEST_TILE // found.queries) if few else 1, 1, -1):
        if divides(heads, found.groups) and (packed := Attention(region, heads)).shares_keys():
            return packed
    return found


def write(region: Region) -> WrittenKernel:
    """Return the kernel of a region."""
    attention = _attention_of(region)
    emitter, name = attention.emitter, kernel_name(region, "attention")
    if region.stores or region.value.size != attention.outer.size:
        raise RefusedError("further results besides that of attention")
    kind = triton_name(attention.dtype)
    precision = ', input_precision="ieee"' if attention.dtype == "float32" else ""
    queries = attention.query_tile()
    emitter.lines.append(f"queries = {queries}")
    prologue = list(emitter.lines)
    with emitter.block() as lines:
        query = "queries"
        key = attention.key_tile()
        product = emitter.variable(f"tl.dot({query}, {key}{precision})")
        score = attention.score(product)
        outside = f'tl.where(key_mask, {score}, float("-inf"))'
        lines.append(f"scores = {score if attention.even_keys else outside}")
        scores = list(lines)
    with emitter.block() as lines:
        value = attention.value_tile()
        lines.append(f"accumulator = tl.dot(weights.to({kind}), {value}, accumulator * kept{precision})")
        values = list(lines)

    def result(indices: Indices) -> Scalar:
        if indices != attention.anchor_index:
            raise RefusedError("a result of attention at another place")
        return Scalar("result", "float32")

    emitter.anchors[attention.outer.name] = result
    with emitter.block() as lines:
        position = linear(attention.anchor_index, attention.outer.shape)
        indices = apart(position, region.value.shape)
        masks = ["query_mask", *sorted(position.masks)]
        emitter.store(
            region.root,
            indices,
            emitter.value(region.root, indices),
            attention.result_shape,
            masks,
            spread=attention.queries == 1,
        )
        epilogue = list(lines)
    begin, end = attention.limits()
    tile = "(tiles - 1 - tl.program_id(0) % tiles)" if end != str(attention.keys) else "(tl.program_id(0) % tiles)"
    parameters, constraints = space(attention, shared=begin == "0" or attention.query == Index())
    total = "total" if attention.softmax else "tl.where(total == 0, 1, total)"
    epilogue, share, second = [f"result = accumulator / {total}", *epilogue], list[str](), None
    if SPLITS in parameters:
        epilogue, second = divided(region, attention, name, epilogue, total)
        share = SHARE.strip().splitlines()
    source = filled(
        TEMPLATE,
        emitter,
        {"prologue": prologue, "share": share, "scores": scores, "values": values, "epilogue": epilogue},
        name=name,
        more=f", {SPLITS}: tl.constexpr" if second else "",
        tile=tile + (".to(tl.int64)" if emitter.wide else ""),
        queries=attention.queries,
        keys=attention.keys,
        depth=attention.depth,
        depth_block=_block(attention.depth),
        features=attention.features,
        feature_block=_block(attention.features),
        begin=begin,
        end=end,
    )
    pairs = float(typical(attention.groups * attention.queries * attention.keys))
    visible = 0.5 if end != str(attention.keys) else 1.0
    return WrittenKernel(
        structure="attention",
        name=name,
        source=source,
        buffers=tuple(emitter.buffers),
        stored=region.stored,
        grid=(f"triton.cdiv({attention.queries}, BLOCK_M) * {attention.groups}", *([SPLITS] if second else [])),
        parameters=parameters,
        constraints=constraints,
        work=KernelWork(
            scalar=visible * pairs * (8 + spanning(scores, [KEY])),
            products=visible * 2 * pairs * (attention.depth + attention.features),
        ),
        second=second,
    )


def is_anchor(graph: OperatorGraph, value: GraphValue) -> bool:
    """Return whether a value is a part of an attention that is not element-wise."""
    return plain_name(value) in (_WHOLE, "bmm") or reduction_of(graph, value) is not None


def seeds(graph: OperatorGraph) -> Iterable[frozenset[str]]:
    """Yield, for each product with a softmax, all values between it and the product of the scores."""
    for value in graph.values:
        if plain_name(value) != "bmm":
            continue
        softmax = softmax_of(graph, str(referenced(value.arguments[0])))
        inner = _inner(graph, softmax.scores) if softmax else None
        if softmax is not None and inner is not None:
            yield _between(graph, inner, value.name)


def _inner(graph: OperatorGraph, name: str) -> str | None:
    """Return the last product before a value."""
    left, seen = [name], set[str]()
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        if plain_name(graph.by_name[name]) == "bmm":
            return name
        left += graph.by_name[name].operands
    return None


def _between(graph: OperatorGraph, first: str, last: str) -> frozenset[str]:
    """Return the values that need the first one and that the last one needs, without the last one."""
    after = {first}
    for value in graph.values:
        if after & {*value.operands}:
            after.add(value.name)
    return graph.ancestors([last]) & after - {last}


STRUCTURE = Structure("attention", write, is_anchor, seeds, dynamic=True, in_library=True)
