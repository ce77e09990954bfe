"""Knowledge from a device's limits about parameters with known names: constraints, features, likely configs.

A kernel whose parameters have other names gets no constraints, and is searched without this knowledge.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from ..core import Config, DeviceLimits, Kernel, MatrixProduct, Profile, SearchSpace, SpaceError
from ..core.encoded_space import EncodedSpace, Rows
from ..core.expressions import Expression
from ..core.parameter_roles import ParameterRoles
from ..core.user_package import needs_package
from .observations import Floats
from .source_products import function_names, multiplies, turns_tiles

MAX_THREADS = 1024
USUAL_THREADS = 128.0
"""Assumed block size where none is given."""
ASYNCHRONOUS_ROWS = 64
"""Rows that a tile needs where matrix units read their operands from shared memory."""
L2_BYTES = 48.0
"""Bytes per clock from L2 to a multiprocessor. This and the next one are round numbers of recent GPUs: they only rank
candidates, so only their ratios matter."""
LATENCY = 900.0
"""Clocks from requesting a tile to receiving it."""


def constraints(kernel: Kernel, names: tuple[str, ...], profile: Profile) -> list[str]:
    """Return expressions that every config must satisfy on the device; none for a CPU."""
    limits, product = profile.limits, profile.product
    roles = ParameterRoles.among(names, function_names(kernel))
    if limits is None:
        return []
    return [_where_chosen(kernel, text) for text in _limits(kernel, roles, limits, product)]


def _where_chosen(kernel: Kernel, text: str) -> str:
    """Return a constraint that holds where the user's own code chooses one of its values, which is 0 then."""
    names = sorted(name for name in Expression(text).names if kernel.config.get(name) == 0)
    own = names if needs_package(kernel.source) else []
    return " or ".join([*(f"{name} == 0" for name in own), text])


def _limits(kernel: Kernel, roles: ParameterRoles, limits: DeviceLimits, product: MatrixProduct | None) -> list[str]:
    threads = roles.thread_count(limits.described.warp_size)
    found = [f"{threads} <= {MAX_THREADS}"] if threads else []
    if not roles.m or not roles.n or not multiplies(kernel):
        return found
    columns = f"{roles.n} * {product.side_by_side}" if product is not None and product.side_by_side > 1 else roles.n
    if threads:
        found.append(f"{roles.m} * {columns} <= {threads} * {limits.described.accumulators}")
    if product is not None and roles.k:
        buffers = _buffers(kernel, roles, limits, product)
        size = f"({roles.m} + {columns}) * {roles.k} * {product.element_bytes}"
        found.append(f"{size}{f' * {buffers}' if buffers else ''} <= {limits.shared_bytes}")
    return found


def _buffers(kernel: Kernel, roles: ParameterRoles, limits: DeviceLimits, product: MatrixProduct) -> str:
    """Return the minimum number of resident tiles of each operand in shared memory; empty if stages are unknown.

    Some languages keep one per stage with asynchronous matrix units, and one fewer elsewhere. Only Hopper and
    data-centre Blackwell have those units. They need at least 64 rows and four warps, and take wide operands only at
    reduced precision, which names and sizes do not show.
    """
    if roles.stages is None:
        return ""
    if kernel.language.keeps_stages:
        return f"max({roles.stages}, 1)"
    fewer = f"max({roles.stages} - 1, 1)"
    may_be_asynchronous = limits.described.asynchronous and product.element_bytes <= 2
    if kernel.language.keeps_asynchronous_stages and roles.warps and may_be_asynchronous:
        rows = roles.n if turns_tiles(kernel, roles.own(function_names(kernel))) else roles.m
        return f"({roles.stages} if {rows} >= {ASYNCHRONOUS_ROWS} and {roles.warps} >= 4 else {fewer})"
    return fewer


def prune(
    space: SearchSpace, kernel: Kernel, profile: Profile, keep: Iterable[Config] = ()
) -> tuple[SearchSpace, list[str]]:
    """Return the space without configs that the device cannot run, and the added constraints.

    Configs to `keep` stay whatever is known of the device: somebody says that they run. Raises `SpaceError` when
    nothing is left.
    """
    found = [text for text in constraints(kernel, space.names, profile) if text not in space.constraints]
    kept = [item for item in keep if item in space]
    added = [_except_for(kept, text) for text in found]
    if not added:
        return space, []
    try:
        return SearchSpace(space.parameters, [*space.constraints, *added], sizes=space.sizes), added
    except SpaceError:
        raise SpaceError(
            f"no config of the space fits the device: it must satisfy {' and '.join(added)}; add smaller tiles, "
            "fewer stages or more warps"
        ) from None


def _except_for(configs: Iterable[Config], text: str) -> str:
    """Return a constraint that these configs, and those with the same values of its names, satisfy."""
    constraint = Expression(text)
    broken = [config for config in configs if not constraint(config)]
    same = (" and ".join(f"{name} == {item[name]!r}" for name in sorted(constraint.names)) for item in broken)
    return " or ".join(dict.fromkeys([text, *same]))


Mask = npt.NDArray[np.bool_]


class TileModel:
    """Estimates for configs of a tiled matrix product on a GPU."""

    def __init__(
        self, encoded: EncodedSpace, roles: ParameterRoles, limits: DeviceLimits, product: MatrixProduct
    ) -> None:
        self._encoded, self._roles, self._limits, self._product = encoded, roles, limits, product

    @classmethod
    def of(cls, space: SearchSpace, profile: Profile | None) -> TileModel | None:
        """Return the model of a space; None if its tile parameters, the product or the limits are unknown."""
        roles = ParameterRoles.of(space.names)
        if profile is None or profile.limits is None or profile.product is None or not roles.tiled:
            return None
        return cls(space.encoded, roles, profile.limits, profile.product)

    def __call__(self, rows: Rows) -> Floats:
        """Return features, shape (rows, 8): logarithms of tile area, of operations per byte, of waves, of the last
        wave's tail, of padding, of shared memory, of accumulators per thread, and of the estimated time."""
        metrics = self._metrics(rows)
        names = ("area", "intensity", "waves", "tail", "padding", "shared", "accumulators")
        return np.column_stack([*(np.log2(metrics[name]) for name in names), self.estimate(rows)])

    def estimate(self, rows: Rows, alone: Mask | None = None, adding: Floats | float = 0.0) -> Floats:
        """Return the logarithm of a relative time: good enough to choose first candidates.

        Blocks that share a multiprocessor do a step of the loop over k together. A step takes as long as the slowest
        of: multiplying, at the rate of the matrix units; loading the tiles from L2; and the latency of a load, divided
        by the stages in flight. The number of rounds follows from the number of blocks. Rows that are `alone` share no
        multiprocessor, as programs that loop over tiles do. `adding` are clocks of each step in which a block does not
        multiply, since it adds a sum to another one; the others on its multiprocessor do meanwhile.
        """
        metrics, product = self._metrics(rows, alone), self._product
        limits = self._limits.described
        steps = product.taps * np.ceil(product.k / product.taps / metrics["split"] / metrics["k"])
        # The synchronous instructions, for few rows, multiply fp8 as fp16.
        width = np.where(metrics["rows"] < ASYNCHRONOUS_ROWS, max(product.element_bytes, 2), product.element_bytes)
        multiply = (
            metrics["m"]
            * metrics["n"]
            * product.side_by_side
            * metrics["k"]
            * width
            / limits.fma_bytes
            * _inefficiency(metrics, limits.accumulators)
        )
        fetch = (metrics["m"] + metrics["n"] * product.side_by_side) * metrics["k"] * product.element_bytes / L2_BYTES
        latency = LATENCY / np.maximum(metrics["stages"] - 1, 0.5)
        shared_out = metrics["together"]
        step = ((shared_out * multiply + adding) ** 3 + (shared_out * fetch) ** 3 + latency**3) ** (1 / 3)
        store = metrics["m"] * metrics["n"] * product.element_bytes / L2_BYTES * shared_out
        return np.asarray(np.log(metrics["rounds"] * (steps * step + 2 * LATENCY + store)))

    def candidates(self, count: int, like: Rows | None = None) -> Rows:
        """Return the members with the best estimates, one per tile shape and width of the block.

        `like` is a row with values for what the model does not know, such as the order of tiles. Without them, and
        where they go with no tile, members differ in these parameters at random. Of a tile of few rows, whose widths
        hardly differ in the estimate, one is taken: of equal ones the nearest to that row's.
        """
        members = self._encoded.sample(100_000, np.random.default_rng(0))
        if like is not None:
            members = self._alike(members, like)
        estimates, threads = self.estimate(members).round(9), self._threads(members)
        usual = USUAL_THREADS if like is None else self._threads(like[None])[0]
        order = np.lexsort((np.abs(np.log2(threads / usual)), estimates))
        metrics = self._metrics(members)
        # The estimate says little of a tile of few rows: one of its widths stands for all.
        widths = np.where(metrics["rows"] < ASYNCHRONOUS_ROWS, 0.0, threads)
        chosen: dict[tuple[float, ...], int] = {}
        for i in order.tolist():
            chosen.setdefault((float(metrics["m"][i]), float(metrics["n"][i]), float(widths[i])), i)
            if len(chosen) == count:
                break
        return members[list(chosen.values())]

    def _alike(self, members: Rows, like: Rows) -> Rows:
        """Return the members with a row's values of the other parameters; all members if there are none."""
        roles = self._roles
        known = {roles.m, roles.n, roles.k, roles.warps, roles.threads, roles.stages, roles.split}
        others = [i for i, name in enumerate(self._encoded.names) if name not in known]
        changed = members.copy()
        changed[:, others] = like[others]
        changed = self._encoded.unique(changed[self._encoded.allowed(changed)])
        return changed if len(changed) else members

    def _column(self, rows: Rows, name: str | None, default: float = 1.0) -> Floats:
        if name is None:
            return np.full(len(rows), default)
        return np.asarray(self._encoded.columns(rows)[name], dtype=np.float64)

    def _threads(self, rows: Rows) -> Floats:
        if self._roles.warps:
            return self._column(rows, self._roles.warps) * self._limits.described.warp_size
        return self._column(rows, self._roles.threads, USUAL_THREADS)

    def _metrics(self, rows: Rows, alone: Mask | None = None) -> dict[str, Floats]:
        limits, product, roles = self._limits, self._product, self._roles
        m, n, k = (self._column(rows, name) for name in (roles.m, roles.n, roles.k))
        threads = self._threads(rows)
        stages = np.maximum(self._column(rows, roles.stages, 2.0), 1.0)
        split = np.maximum(self._column(rows, roles.split), 1.0)
        tiles = np.ceil(product.m / m) * np.ceil(product.n / n) * product.batch * split
        shared = (m + n * product.side_by_side) * k * product.element_bytes * stages
        kept = n + (product.sums - 1) * np.minimum(n, product.part or np.inf)
        accumulators = m * kept * product.side_by_side / threads
        # A block's use of its multiprocessor limits the others: shared memory, registers (some beside the tile),
        # threads.
        by_shared = limits.shared_bytes / shared
        most = limits.described.thread_registers
        by_registers = limits.registers / (threads * np.clip(1.3 * accumulators + 40, 32, most))
        by_threads = limits.threads / threads
        resident = np.maximum(1.0, np.floor(np.minimum(np.minimum(by_shared, by_registers), by_threads)))
        if alone is not None:
            resident = np.where(alone, 1.0, resident)
        each = np.ceil(tiles / limits.multiprocessors)
        together = np.minimum(resident, each)
        return {
            "m": m,
            "n": n,
            "k": k,
            "rows": n if product.turned else m,
            "columns": m if product.turned else n,
            "stages": stages,
            "split": split,
            "threads": threads,
            "area": m * n,
            "intensity": m * n / (m + n),
            "waves": tiles / limits.multiprocessors,
            "together": together,
            "rounds": np.ceil(each / together),
            # Ratio of the fullest multiprocessor's time to that of evenly divided work.
            "tail": each * limits.multiprocessors / tiles,
            "padding": (np.ceil(product.m / m) * m / product.m) * (np.ceil(product.n / n) * n / product.n),
            "shared": shared,
            "accumulators": accumulators,
        }


def _inefficiency(metrics: dict[str, Floats], most: int) -> Floats:
    """Return the ratio of the matrix units' time to their best."""
    # Few rows use the older, synchronous instructions; narrow tiles reload their operands.
    narrow = np.where(metrics["rows"] < ASYNCHRONOUS_ROWS, 2.0, 1.0) * (1 + 24 / metrics["columns"])
    # A second group of warps hides the issue of the first; accumulators beyond three quarters of the registers spill.
    alone = np.where((metrics["threads"] <= 128) & (metrics["rows"] > 64), 1.1, 1.0)
    spilled = 1 + np.maximum(0.0, metrics["accumulators"] - most) / 32
    return np.asarray(narrow * alone * spilled)
