"""The configs that tiles, waves and bytes suggest, without a measurement."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core import Config, DeviceLimits, Kernel, MatrixProduct, Profile, SearchSpace, Value
from ...core.encoded_space import Rows
from ...core.parameter_roles import ParameterRoles
from ..hardware import ASYNCHRONOUS_ROWS, TileModel, prune
from ..observations import Floats
from .fields import VARIANT
from .shapes import Shape

LAUNCH = 5000.0
"""Clocks of the second kernel that adds the parts of K."""
TILE = ("BLOCK_SIZE_M", "BLOCK_SIZE_N")
PART = "PART_N"
SCALED = "BLOCK"
"""Name of the constant with the number of elements per scale of an operand."""
LINE = 128
"""Bytes that memory delivers at once."""
BYTES = 2500.0
"""Bytes per clock between memory and the whole GPU, as a round number of recent ones."""
IN_ROLES = ("roles", "turns", "pairs")
"""Forms in which some warps load and others compute."""
DESCRIBED = {
    "tma": "BLOCK_SIZE_M * min(BLOCK_SIZE_N, 16384 // max(BLOCK_SIZE_M, 128)) * 2 + 256",
    "tma_tile": "256",
}
"""Forms with descriptors, and their bytes of shared memory beside the operands: for barriers, and for the part of a
result that leaves through shared memory while the next tile's operands arrive there."""


class FormTimes(NamedTuple):
    """A form's times as shares of the plain form's."""

    wide: float = 1.0
    """On wide tiles."""
    others: float = 1.0
    two_sums: float = 1.0
    """Factor if the sum of each step is added to another one."""
    scaled_wide: float = 1.0
    """Where it is scaled too, less what `ADDING` explains; on wide tiles."""
    scaled_others: float = 1.0

    def of(self, product: MatrixProduct) -> tuple[float, float]:
        """Return those of a product, on wide tiles and on others."""
        if product.scaled:
            return self.scaled_wide, self.scaled_others
        return (self.wide, self.others) if product.sums == 1 else (self.two_sums, self.two_sums)


FORMS = {
    "plain": FormTimes(),
    "tma": FormTimes(0.9, 1.11, 1.15, 0.98, 1.1),
    "persistent": FormTimes(0.98, 1.05, 1.2, 1.05, 1.1),
    "tma_tile": FormTimes(0.86, 1.0, 1.05, 0.98, 1.1),
    "roles": FormTimes(),
    "turns": FormTimes(),
    "pairs": FormTimes(scaled_wide=1.05, scaled_others=1.05),
}
"""Forms that a search begins with. Rounded from 212 pairs of trials on an H200 that differ in the form alone, but for
two sums of `tma_tile`, which no trial had: it is that of `tma`, less what other small tiles save by sharing a
multiprocessor. For scaled sums from 264 others; `pairs` took 1.05 times as long as `turns` (geometric mean of 19)."""
LOOPING = ["persistent", "tma", *IN_ROLES]
"""Forms with one program per multiprocessor."""
NOT_LOOPING = 1.1
"""Factor of `tma_tile` on wide tiles of which multiprocessors get several: only a loop loads the next one meanwhile."""
NOT_SPILLING = ["persistent", *IN_ROLES]
SPILLING = 1.25
"""Factor of the other forms for tiles of as many sums as a thread can have: their loops spill. With block
scales, tiles of 128 x 256 in 8 warps took 1.11 to 1.40 times as long in the plain form as in the persistent one on an
H200."""
ADDING, ADDING_EACH = 300.0, 0.045
"""Clocks of a step in which a block scales its sum and adds it to another one: for each step, and for each element
of its tile. Fitted to trials of block-scaled fp8 at 40 shapes on an H200
(results/samples/h200/gemm_a8w8_trials.json): of those of a shape, the one with the best estimate takes 1.05 times
as long as the fastest, 1.14 without; the same where the weight's trials are left out of the fit. Forms in roles
multiply meanwhile, which alone makes them 0.47 to 0.63 of the plain form's time for 2048 rows and more; 0.48 to
0.56 were measured. For experts it is assumed."""
WIDE_TILE = 64 * 128
"""Elements of a result tile from which descriptors paid."""
FIRST = 12
"""Configs that a search begins with."""
OF_TILE = 3
"""Maximum number of them with the same tile, since the estimate may be wrong for it."""
GROUPS = (8, 4, 1)
"""Rows of tiles that share operands, in the order of preference: the model of tiles does not know them."""


def product_of(shape: Shape, element_bytes: int | float, dtype: str, kernel: Kernel | None = None) -> MatrixProduct:
    """Return a shape as the model of tiles takes it: with experts, the first product of each that has tokens.

    A kernel may say in `PART_N` how many columns of a tile it multiplies at once.
    """
    # Tensor cores add fp8 products with few bits, so the kernels add the sum of each step to another one.
    common: dict[str, Any] = {"element_bytes": element_bytes, "dtype": dtype, "sums": 1 + dtype.startswith("float8")}
    common["part"] = 0 if kernel is None else kernel.config.get(PART, 0)
    common["scaled"] = common["sums"] > 1 and kernel is not None and SCALED in kernel.config
    if not shape.experts:
        return MatrixProduct(m=shape.m, n=shape.n, k=shape.k, **common)
    pairs = shape.m * shape.top_k
    busy = min(shape.experts, pairs)
    return MatrixProduct(m=-(-pairs // busy), n=2 * shape.n, k=shape.k, batch=busy, **common)


def space_for(
    kernel: Kernel,
    shape: Shape,
    product: MatrixProduct,
    limits: DeviceLimits,
    fixed: Mapping[str, Sequence[Value]],
) -> SearchSpace:
    """Return a kernel's configs for a shape that fit the device; `fixed` replaces the values of parameters.

    Raises `SpaceError` if there are none.
    """
    values = {name: fixed.get(name, choices) for name, choices in kernel.declared_values.items()}
    if VARIANT in values:
        values[VARIANT] = [form for form in values[VARIANT] if _runs_on(limits, form)] or values[VARIANT]
    forms = values.get(VARIANT, ())
    fitting = [_room_for_the_result(form, product, limits) for form in DESCRIBED if form in forms]
    space = kernel.space(values, [*kernel.declared_constraints, *fitting], shape.sizes)
    # Only limits and product decide what fits.
    return prune(space, kernel, Profile.model_construct(limits=limits, product=product))[0]


def _runs_on(limits: DeviceLimits, form: Value) -> bool:
    if form in IN_ROLES:
        return limits.described.warp_groups
    return form not in DESCRIBED or limits.described.descriptors


def _room_for_the_result(form: str, product: MatrixProduct, limits: DeviceLimits) -> str:
    """Return the constraints of a form with descriptors: in `DESCRIBED`, the room for its result."""
    operands = f"(BLOCK_SIZE_M + BLOCK_SIZE_N) * BLOCK_SIZE_K * {product.element_bytes} * NUM_STAGES"
    return f"VARIANT != '{form}' or {operands} + {DESCRIBED[form]} <= {limits.shared_bytes}"


def analytic_choice(space: SearchSpace, limits: DeviceLimits, product: MatrixProduct) -> Config:
    """Return the config with the best estimate."""
    return space.encoded.config(_ranked(space, limits, product)[0])


def first_configs(space: SearchSpace, limits: DeviceLimits, product: MatrixProduct) -> list[Config]:
    """Return the configs that a search begins with: those with the best estimates, one of each form, tile, number of
    warps and of parts. The first is the analytic choice."""
    rows = _ranked(space, limits, product)
    kinds = [space.names.index(name) for name in (VARIANT, *TILE, "NUM_WARPS", "SPLIT_K") if name in space.names]
    best = rows[np.sort(np.unique(rows[:, kinds], axis=0, return_index=True)[1])]
    chosen: list[Config] = []
    tiles: Counter[tuple[Value, ...]] = Counter()
    for config in map(space.encoded.config, best):
        tile = tuple(config[name] for name in TILE)
        if tiles[tile] < OF_TILE:
            chosen.append(config)
            tiles[tile] += 1
    return chosen[:FIRST]


def _ranked(space: SearchSpace, limits: DeviceLimits, product: MatrixProduct) -> Rows:
    """Return members in the forms of `FORMS`, the best estimate first.

    The model of tiles counts rounds of blocks and the bytes of their operands; a form has its factor, and parts of K
    cost a second kernel, which reads and writes them again.
    """
    model = TileModel(space.encoded, ParameterRoles.of(space.names), limits, product)
    rows = space.encoded.sample(100_000, np.random.default_rng(0))
    columns = space.encoded.columns(rows)
    kept = np.isin(columns[VARIANT], list(FORMS)) if VARIANT in columns else np.ones(len(rows), dtype=bool)
    # Shorter rows of a tile take as many requests to memory for fewer bytes; the model of tiles counts bytes only.
    whole = kept & (np.asarray(columns["BLOCK_SIZE_K"]) * product.element_bytes >= LINE)
    kept = next((item for item in (whole, kept) if item.any()), np.ones(len(rows), dtype=bool))
    rows = rows[kept]
    alone = np.isin(space.encoded.columns(rows).get(VARIANT, np.zeros(len(rows))), LOOPING)
    times = np.exp(model.estimate(rows, alone, _adding(rows, space, product))) * _factors(rows, space, limits, product)
    times = times + _parts(rows, space, product)
    return rows[np.lexsort((_preference(rows, space), np.round(times, 3)))]


def _factors(rows: Rows, space: SearchSpace, limits: DeviceLimits, product: MatrixProduct) -> Floats:
    """Return the ratio of a form's time to the plain form's.

    Copies by descriptors take their instructions from the warps that multiply, which pays where the matrix units set
    the pace; a small tile only waits for its descriptors.
    """
    columns = space.encoded.columns(rows)
    if VARIANT not in columns:
        return np.ones(len(rows))
    m, n = (np.asarray(columns[name], dtype=np.float64) for name in ("BLOCK_SIZE_M", "BLOCK_SIZE_N"))
    wide = (m >= ASYNCHRONOUS_ROWS) & (m * n >= WIDE_TILE) & limits.described.asynchronous
    found = np.ones(len(rows))
    for form, times in FORMS.items():
        on_wide, on_others = times.of(product)
        found = np.where(columns[VARIANT] == form, np.where(wide, on_wide, on_others), found)
    tiles = np.ceil(product.m / m) * np.ceil(product.n / n) * product.batch
    threads = np.asarray(columns["NUM_WARPS"], dtype=np.float64) * limits.described.warp_size
    sums = m * (n + (product.sums - 1) * np.minimum(n, product.part or np.inf))
    spilling = (sums >= limits.described.accumulators * threads) & ~np.isin(columns[VARIANT], NOT_SPILLING)
    found = np.where(spilling, SPILLING * found, found)
    several = wide & (tiles > limits.multiprocessors) & (product.sums == 1) & (columns[VARIANT] == "tma_tile")
    return np.where(several, NOT_LOOPING * found, found)


def _adding(rows: Rows, space: SearchSpace, product: MatrixProduct) -> Floats:
    """Return the clocks of a step in which a block scales its sum and adds it to another one, and nothing else."""
    columns = space.encoded.columns(rows)
    elements = np.prod([np.asarray(columns[name], dtype=np.float64) for name in TILE], axis=0)
    meanwhile = np.isin(columns.get(VARIANT, np.zeros(len(rows))), IN_ROLES)
    return np.where(meanwhile | (not product.scaled), 0.0, ADDING + ADDING_EACH * elements)


def _parts(rows: Rows, space: SearchSpace, product: MatrixProduct) -> Floats:
    if "SPLIT_K" not in space.names:
        return np.zeros(len(rows))
    parts = np.asarray(space.encoded.columns(rows)["SPLIT_K"], dtype=np.float64)
    traffic = product.m * product.n * (2 * parts * 4) / BYTES
    return np.where(parts > 1, LAUNCH + traffic, 0.0)


def _preference(rows: Rows, space: SearchSpace) -> Floats:
    if "GROUP_SIZE_M" not in space.names:
        return np.zeros(len(rows))
    groups = np.asarray(space.encoded.columns(rows)["GROUP_SIZE_M"])
    order = {group: place for place, group in enumerate(GROUPS)}
    return np.array([order.get(int(group), len(order)) for group in groups], dtype=np.float64)


@functools.lru_cache(maxsize=4096)
def choose_for(kernel: Kernel, shape: Shape, element_bytes: int | float, dtype: str, limits_key: str) -> Config:
    """Return the analytic choice for a shape; the limits are given as JSON, so that they can be remembered."""
    limits = DeviceLimits.model_validate_json(limits_key)
    product = product_of(shape, element_bytes, dtype, kernel)
    return analytic_choice(space_for(kernel, shape, product, limits, {}), limits, product)
