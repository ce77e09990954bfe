"""Products with the operators before and after: bias, activation, gates, cells, unpacked weights, gathers.

A region may need a product at several columns for each element of its result: the gates of one packed product, a
recurrent cell. Each of them has an accumulator. Products of sums of one length share a loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import ceil

from ....core.dynamic_size import typical
from ..combining import Partials, alternative, second_launch
from ..elementwise import Scalar
from ..emitter import Anchor, Emitter, Indices, RefusedError
from ..indices import apart, linear
from ..region import SPLITS, KernelWork, Region, SecondLaunch, Structure, WrittenKernel, filled, kernel_name
from .factors import Factors, is_product, tile_index
from .space import LARGEST_K, LARGEST_M, LARGEST_N, ProductSizes, space
from .template import LOOP, SHARE, TEMPLATE

_DTYPES = {"float32": 4, "bfloat16": 2, "float16": 2}
_MOST_PARTS = 8
"""Maximum number of adjacent parts of a product that are needed together."""


@dataclass(frozen=True)
class ProductPart:
    """A product at some columns: what one accumulator holds."""

    factors: Factors
    offset: int
    """Offset of its columns from those of the result."""

    @property
    def terms(self) -> int:
        """The length of its sum."""
        return self.factors.sizes[3]


class Products:
    """Writes the products of a region."""

    def __init__(self, region: Region) -> None:
        self.region, self.graph = region, region.graph
        products = [Factors(self.graph, value) for value in region.topological() if is_product(self.graph, value)]
        if not products:
            raise RefusedError("no product")
        self.first, self.emitter = products[0], Emitter(region.graph, region.inlined)
        self.batch, self.m, width, _ = self.first.sizes
        self.n = region.value.size // (self.batch * self.m)
        if any(item.sizes[:3] != (self.batch, self.m, width) for item in products):
            raise RefusedError("products of several sizes")
        if not 0 < self.n <= width <= _MOST_PARTS * self.n or width % self.n:
            raise RefusedError("a result of another size than the product's")
        dtypes = {item.dtype for factors in products for item in (factors.left, factors.right)}
        if len(dtypes) != 1 or not dtypes <= _DTYPES.keys():
            raise RefusedError(f"products of {' and '.join(sorted(dtypes))}")
        if any(size < 1 for size in (self.m, self.n, *(item.sizes[3] for item in products))) or self.n == 1:
            raise RefusedError("a product with a vector")
        if any(item.sizes[3] == 1 for item in products):
            raise RefusedError("a product of one term")
        (self.dtype,) = dtypes
        self.group = tile_index("batch", self.batch, 1)
        self.row, self.column = tile_index("row", self.m, LARGEST_M), tile_index("column", self.n, LARGEST_N)
        self.parts: list[ProductPart] = []
        self._products = {item.value.name: item for item in products}
        self.stored = {name: self._indices(name) for name in region.stored}
        self.packed = width != self.n

    def _indices(self, name: str) -> Indices:
        """Return the index of a stored value at an element of the tile, and note the parts that it needs."""
        value, batched = self.graph.by_name[name], self.first.place(self.group, self.row, self.column)
        if value.size != self.batch * self.m * self.n:
            raise RefusedError("a result of another size than the product's")
        product = self.first.value.shape
        choices = []
        if self.n == self.first.sizes[2]:
            last = (batched[0], *batched[2:], batched[1])
            choices += [batched] if value.shape == product else []
            if self.first.is_convolution and value.shape == (product[0], *product[2:], product[1]):
                choices.append(last)
            choices.append(apart(linear(batched, product), value.shape))
        elif not self.first.is_convolution:
            choices.append(apart(linear(batched, (*product[:-1], self.n)), value.shape))
        for indices in choices:
            try:
                found = self._needed(name, indices)
            except RefusedError as refused:
                reason = refused
                continue
            self.parts += [part for part in found if part not in self.parts]
            return indices
        raise reason if choices else RefusedError("columns of a convolution")

    def _needed(self, name: str, indices: Indices) -> list[ProductPart]:
        """Return the parts that an element of a value needs. Raises `RefusedError`."""
        scratch, found = Emitter(self.graph, self.region.inlined), list[ProductPart]()

        def note(factors: Factors, place: Indices) -> Scalar:
            found.append(self._part(factors, place))
            return Scalar(f"accumulator_{len(found)}", "float32")

        scratch.anchors |= {name: partial(note, factors) for name, factors in self._products.items()}
        scratch.value(name, indices)
        return list(dict.fromkeys(found))

    def _part(self, factors: Factors, place: Indices) -> ProductPart:
        """Return the part that has an element of a product."""
        for offset in (number * self.n for number in range(factors.sizes[2] // self.n)):
            if place == factors.place(self.group, self.row, self.column.plus(offset)):
                return ProductPart(factors, offset)
        raise RefusedError("a product at another place than the result's")

    def steps(self, terms: int) -> list[str]:
        """Write a step of the sums of one length."""
        column, row = (tile_index(text, terms, LARGEST_K) for text in ("sum_column", "sum_row"))
        precision = ', input_precision="ieee"' if self.dtype == "float32" else ""
        with self.emitter.block() as lines:
            for number, part in enumerate(self.parts):
                if part.terms == terms:
                    left = part.factors.factor(self.emitter, self.group, self.row, column)
                    own = self.column.plus(part.offset)
                    right = part.factors.other_factor(self.emitter, self.group, row, own)
                    accumulator = f"accumulator_{number}"
                    lines.append(f"{accumulator} = tl.dot({left}, {right}, {accumulator}{precision})")
            return list(lines)

    def result(self, factors: Factors, indices: Indices) -> Scalar:
        """Return an element of the tile of a product."""
        number = self.parts.index(self._part(factors, indices))
        return factors.finished(self.emitter, Scalar(f"accumulator_{number}", "float32"), indices)

    def epilogue(self) -> list[str]:
        """Write what follows the loops."""
        emitter = self.emitter
        emitter.anchors |= {name: partial(self.result, factors) for name, factors in self._products.items()}
        with emitter.block() as lines:
            for stored, indices in self.stored.items():
                masks = ["row_mask", *sorted(linear(indices, self.graph.by_name[stored].shape).masks)]
                item = emitter.value(stored, indices)
                emitter.store(stored, indices, item, "[BLOCK_M, BLOCK_N]", masks, spread=self.m == 1)
            return list(lines)

    def divided(self, name: str, epilogue: list[str]) -> tuple[list[str], SecondLaunch]:
        """Return what follows the loop where several programs share a sum, and the launch that adds their parts up."""
        count = len(self.parts)
        partials = Partials(f"partials_{self.region.number}", [self.batch, self.m, self.n], count)
        self.emitter.buffers[partials.name] = partials.pointer
        shape = self.first.value.shape
        position = linear(self.first.place(self.group, self.row, self.column), shape).text
        position += " + row" if self.m == 1 else ""  # for the tile's shape
        stores = [
            partials.stored(position, f"accumulator_{number}", "row_mask & column_mask", number)
            for number in range(count)
        ]

        def added(emitter: Emitter, number: int, part: ProductPart, indices: Indices) -> Scalar:
            total = emitter.variable("tl.zeros([XBLOCK], tl.float32)")
            item = partials.loaded(emitter, linear(indices, shape), number)
            emitter.lines.extend([f"for split in tl.static_range({SPLITS}):", f"    {total} += {item}"])
            return part.factors.finished(emitter, Scalar(total, "float32"), indices)

        def anchors(emitter: Emitter) -> dict[str, Anchor]:
            return {
                part.factors.value.name: partial(added, emitter, number, part) for number, part in enumerate(self.parts)
            }

        return alternative(epilogue, stores), second_launch(self.region, name, anchors, [partials])


def write(region: Region) -> WrittenKernel:
    """Return the kernel of a region."""
    products = Products(region)
    emitter, name, count = products.emitter, kernel_name(region, "products"), len(products.parts)
    steps = {terms: products.steps(terms) for terms in sorted({part.terms for part in products.parts}, reverse=True)}
    longest = max(steps)
    tiles = {
        terms: len({line.split(" = ")[0] for line in lines if " = tl.load(" in line}) for terms, lines in steps.items()
    }
    sizes = ProductSizes(
        typical(products.batch),
        typical(products.m),
        typical(products.n),
        typical(longest),
        count,
        _DTYPES[products.dtype],
        min(max(tiles.values()), 2 * count),
        len(steps) == 1 and not products.packed,
    )
    parameters, constraints = space(sizes)
    shared = SPLITS in parameters
    epilogue, loops = products.epilogue(), list[str]()  # which may also need positions of 64 bits in the loops
    for terms, lines in steps.items():
        begin, end = ("begin", "end") if shared else (0, terms)
        loops += filled(LOOP, emitter, {"operands": lines}, begin=begin, end=end, k=terms).splitlines()
    share, second = list[str](), None
    if shared:
        share = filled(SHARE, emitter, {}, k=longest).splitlines()
        epilogue, second = products.divided(name, epilogue)
    source = filled(
        TEMPLATE,
        emitter,
        {
            "accumulators": [
                f"accumulator_{number} = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)" for number in range(count)
            ],
            "loops": loops,
            "epilogue": epilogue,
            "share": share,
        },
        name=name,
        more=f", {SPLITS}: tl.constexpr" if second else "",
        m=products.m,
        n=products.n,
    )
    batch, m, n = map(typical, (products.batch, products.m, products.n))
    # Lines beside loads, tiles and products are computed for each tile anew.
    before = sum(typical(terms) * max(0, len(lines) - tiles[terms] - 3 * count) for terms, lines in steps.items())
    before *= batch * (ceil(n / 128) * m + n * ceil(m / 128))
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
            scalar=float(len(epilogue)) * batch * m * n + before / 2,
            products=2.0 * batch * m * n * sum(typical(part.terms) for part in products.parts),
        ),
        second=second,
    )


STRUCTURE = Structure("products", write, is_product, dynamic=True, in_library=True)
