"""Matrix products with what is element-wise before and after: bias, activation, a gate, unpacked weights, gathers."""

from __future__ import annotations

from functools import partial
from math import ceil

from ....core.operator_graph import GraphValue, OperatorGraph, referenced
from ..combining import Partials, alternative, second_launch
from ..elementwise import Scalar, constant, written
from ..emitter import Anchor, Emitter, Indices, RefusedError
from ..indices import Index, Symbol, apart, linear
from ..region import SPLITS, KernelWork, Region, SecondLaunch, Structure, WrittenKernel, filled, kernel_name
from ..views import plain_name
from .space import LARGEST_K, LARGEST_M, LARGEST_N, ProductSizes, space
from .template import SHARE, TEMPLATE

_PRODUCTS = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1}
"""Where the first factor stands among the arguments."""
_DTYPES = {"float32": 4, "bfloat16": 2, "float16": 2}


class Products:
    """Writes the products of a region, which have the same sizes."""

    def __init__(self, region: Region) -> None:
        self.region, self.graph = region, region.graph
        self.products = [value for value in region.topological() if plain_name(value) in _PRODUCTS]
        if not self.products:
            raise RefusedError("no product")
        self.emitter = Emitter(region.graph, region.inlined)
        sizes = {self._sizes(value) for value in self.products}
        if len(sizes) != 1:
            raise RefusedError("products of several sizes")
        ((self.batch, self.m, self.n, self.k),) = sizes
        self.dtypes = {self._factor(value, place).dtype for value in self.products for place in (0, 1)}
        if len(self.dtypes) != 1 or not self.dtypes <= _DTYPES.keys():
            raise RefusedError(f"products of {' and '.join(sorted(self.dtypes))}")
        if min(self.m, self.n, self.k) < 1 or self.n == 1 or self.k == 1:
            raise RefusedError("a product with a vector")
        (self.dtype,) = self.dtypes

        def index(text: str, extent: int, largest: int) -> Index:
            masks = frozenset({f"{text}_mask"}) if extent % largest else frozenset[str]()
            return Index.of(Symbol(text, extent, masks)) if extent > 1 else Index()

        self.group = index("batch", self.batch, 1)
        self.row, self.column = index("row", self.m, LARGEST_M), index("column", self.n, LARGEST_N)
        self.sum_column, self.sum_row = (index(text, self.k, LARGEST_K) for text in ("sum_column", "sum_row"))

    def _factor(self, value: GraphValue, number: int) -> GraphValue:
        return self.graph.by_name[str(referenced(value.arguments[_PRODUCTS[plain_name(value)] + number]))]

    def _sizes(self, value: GraphValue) -> tuple[int, int, int, int]:
        batch = value.shape[0] if len(value.shape) == 3 else 1
        return batch, value.shape[-2], value.shape[-1], self._factor(value, 0).shape[-1]

    def place(self, value: GraphValue) -> Indices:
        """Return the index of the tile's element in a product."""
        return (self.group, self.row, self.column) if len(value.shape) == 3 else (self.row, self.column)

    def step(self, number: int, value: GraphValue) -> None:
        """Write one step of a product's sum."""
        lead = (self.group,) if len(value.shape) == 3 else ()
        left = self.emitter.tile(self._factor(value, 0).name, (*lead, self.row, self.sum_column), "[BLOCK_M, BLOCK_K]")
        right = self.emitter.tile(self._factor(value, 1).name, (*lead, self.sum_row, self.column), "[BLOCK_K, BLOCK_N]")
        precision = ', input_precision="ieee"' if self.dtype == "float32" else ""
        self.emitter.lines.append(f"accumulator_{number} = tl.dot({left}, {right}, accumulator_{number}{precision})")

    def result(self, number: int, value: GraphValue, indices: Indices) -> Scalar:
        """Return an element of the tile of a product."""
        if indices != self.place(value):
            raise RefusedError("a product at another place than the result's")
        return self.finished(self.emitter, Scalar(f"accumulator_{number}", "float32"), value, indices)

    def finished(self, emitter: Emitter, found: Scalar, value: GraphValue, indices: Indices) -> Scalar:
        """Return an element of a product with what the operator adds to it."""
        alpha, beta = value.keywords.get("alpha", 1), value.keywords.get("beta", 1)
        if alpha != 1:
            found = emitter.named(written("mul", [found, constant(alpha, "float32")], "float32"))
        if _PRODUCTS[plain_name(value)] and beta != 0:
            added = emitter.operand(value.arguments[0], indices, "float32")
            if beta != 1:
                added = emitter.named(written("mul", [added, constant(beta, "float32")], "float32"))
            found = written("add", [found, added], "float32")
        return found

    def divided(self, name: str, epilogue: list[str]) -> tuple[list[str], SecondLaunch]:
        """Return what follows the loop where several programs share a sum, and the launch that adds their parts up."""
        count = len(self.products)
        partials = Partials(f"partials_{self.region.number}", [self.batch, self.m, self.n], count)
        self.emitter.buffers[partials.name] = partials.pointer
        position = f"batch * {self.m * self.n} + row * {self.n} + column"
        stores = [
            partials.stored(position, f"accumulator_{number}", "row_mask & column_mask", number)
            for number in range(count)
        ]

        def added(emitter: Emitter, number: int, value: GraphValue, indices: Indices) -> Scalar:
            total = emitter.variable("tl.zeros([XBLOCK], tl.float32)")
            item = partials.loaded(emitter, linear(indices, value.shape), number)
            emitter.lines.extend([f"for split in tl.static_range({SPLITS}):", f"    {total} += {item}"])
            return self.finished(emitter, Scalar(total, "float32"), value, indices)

        def anchors(emitter: Emitter) -> dict[str, Anchor]:
            return {value.name: partial(added, emitter, number, value) for number, value in enumerate(self.products)}

        return alternative(epilogue, stores), second_launch(self.region, name, anchors, [partials])


def write(region: Region) -> WrittenKernel:
    """Return the kernel of a region."""
    products = Products(region)
    emitter, name = products.emitter, kernel_name(region, "products")
    size = products.batch * products.m * products.n
    if any(region.graph.by_name[stored].size != size for stored in region.stored):
        raise RefusedError("a result of another size than the product's")
    with emitter.block() as lines:
        for number, value in enumerate(products.products):
            products.step(number, value)
        operands = list(lines)
        tiles = len({line.split(" = ")[0] for line in lines if " = tl.load(" in line})
    for number, value in enumerate(products.products):
        emitter.anchors[value.name] = partial(products.result, number, value)
    with emitter.block() as lines:
        first = products.products[0]
        position = linear(products.place(first), first.shape)
        for stored in region.stored:
            indices = apart(position, region.graph.by_name[stored].shape)
            masks = ["row_mask", *sorted(position.masks)]
            item = emitter.value(stored, indices)
            emitter.store(stored, indices, item, "[BLOCK_M, BLOCK_N]", masks, spread=products.m == 1)
        epilogue = list(lines)
    count = len(products.products)
    accumulators = [f"accumulator_{number} = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)" for number in range(count)]
    sizes = ProductSizes(
        products.batch, products.m, products.n, products.k, count, _DTYPES[products.dtype], min(tiles, 2 * count)
    )
    parameters, constraints = space(sizes)
    share, second = list[str](), None
    if SPLITS in parameters:
        share = filled(SHARE, emitter, {}, k=products.k).splitlines()
        epilogue, second = products.divided(name, epilogue)
    source = filled(
        TEMPLATE,
        emitter,
        {"accumulators": accumulators, "operands": operands, "epilogue": epilogue, "share": share},
        name=name,
        more=f", {SPLITS}: tl.constexpr" if second else "",
        begin="begin" if second else 0,
        end="end" if second else products.k,
        m=products.m,
        n=products.n,
        k=products.k,
    )
    before = max(0, len(operands) - tiles - 3 * count)  # lines beside loads, tiles and products
    steps = products.batch * products.k * (products.m * ceil(products.n / 128) + products.n * ceil(products.m / 128))
    return WrittenKernel(
        structure="products",
        name=name,
        source=source,
        buffers=tuple(emitter.buffers),
        stored=region.stored,
        grid=(
            f"triton.cdiv({products.m}, BLOCK_M) * triton.cdiv({products.n}, BLOCK_N) * {products.batch}",
            *([SPLITS] if second else []),
        ),
        parameters=parameters,
        constraints=constraints,
        work=KernelWork(
            scalar=float(len(epilogue)) * size + before * steps / 2, products=2.0 * count * size * products.k
        ),
        second=second,
    )


def is_anchor(graph: OperatorGraph, value: GraphValue) -> bool:
    """Return whether a value is a product."""
    return plain_name(value) in _PRODUCTS


STRUCTURE = Structure("products", write, is_anchor, in_library=True)
