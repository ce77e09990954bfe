"""The attention loop as a graph: the cost of each operation on an SM of a Hopper GPU, by tile sizes.

The rates are from the device's documentation, and none is fitted to measurements. One cycle of the model is
`CLOCKS` clocks of the device, so that a table has tens of rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...core import Config, OptionError, SearchSpace, Value
from ...core.devices.nvidia import HOPPER
from .graph import Edge, Graph, LoopOperation, WarpRoles
from .load_balance import most_balanced

CLOCKS = 64
SHARED_BYTES = HOPPER.block_shared_bytes
"""Shared memory that a block may take."""
REGISTERS = HOPPER.registers
"""Number of registers of a multiprocessor."""
OTHER_REGISTERS = 24
"""Registers that a thread needs in addition to its result tiles: with fewer, nvcc 13.0 spills hundreds of bytes."""
TURN_REGISTERS = 8
"""Additional registers per thread for ping-pong groups."""
LARGEST_DIM = 256
"""Largest head dimension: the columns of one instruction's result."""
L2_BYTES = HOPPER.card.l2_bytes
BY_HAND = {
    "COPY_K": 0, "COPY_V": 0,
    "QK": 1, "PV": 2, "ROW_MAX": 1, "SCALE": 1, "EXP": 1, "ROW_SUM": 1, "RESCALE": 1, "CAST": 1,
}  # fmt: skip
"""The order and stages of FlashAttention-3: the product PV of the tile before runs under the softmax."""


@dataclass(frozen=True)
class Rates:
    """Work per clock of one multiprocessor."""

    tensor_flops: float = 4096.0
    """With fp16 or bf16 operands: twice the number of multiplications."""
    special: float = float(HOPPER.special_functions or 0)
    """Exponentials."""
    vector: float = 128.0
    shared_bytes: float = 128.0
    copy_bytes: float = 48.0
    """Assumed: tiles of keys and values come mostly from the L2 cache, which all multiprocessors share."""
    copy_latency: float = 640.0
    """Clocks until the first byte arrives; assumed."""
    clock_ghz: float = 1.755
    multiprocessors: int = HOPPER.card.multiprocessors


@dataclass(frozen=True)
class AttentionShape:
    """Sizes of the problem. Raises `OptionError` if no tile can serve them."""

    batch: int
    heads: int
    kv_heads: int
    seq_len_q: int
    seq_len_k: int
    head_dim: int
    head_dim_kv: int
    causal: bool = False

    def __post_init__(self) -> None:
        for name in ("batch", "heads", "kv_heads", "seq_len_q", "seq_len_k"):
            if getattr(self, name) < 1:
                raise OptionError(f"`{name}` must be at least 1, not {getattr(self, name)}")
        for name in ("head_dim", "head_dim_kv"):
            if (dim := getattr(self, name)) % 16 or not 16 <= dim <= LARGEST_DIM:
                raise OptionError(
                    f"`{name}` {dim} is not a size that the matrix instructions have",
                    f"use a multiple of 16 up to {LARGEST_DIM}, padded with zeros",
                )
        if self.heads % self.kv_heads:
            raise OptionError(
                f"{self.heads} heads cannot share {self.kv_heads} `num_kv_heads` evenly", "use a divisor of `num_heads`"
            )

    def tiles(self, of_one_loop: bool = False) -> SearchSpace:
        """Return the tiles to search: a group of 128 threads has 64 rows, and a block's accumulators fit.

        With `of_one_loop` only what the simulator tells apart, which knows neither other blocks nor the compiler.
        """
        workers = [0] if of_one_loop else [0, Rates().multiprocessors]
        return SearchSpace.of(
            {
                "BLOCK_M": [64, 128, 192],
                "BLOCK_N": [64, 96, 128, 176],
                "THREADS": [128, 256, 384],
                "P_SHARED": [False, True],
                "ROLES": [False, True],
                "TURNS": [False, True],
                "DEPTH": [1, 2, 3],
                "CONSUMER_REGS": [0, 160, 240],
                "WAIT_IN_PLACE": [False] if of_one_loop else [False, True],
                "HEADS_ABREAST": [1] if of_one_loop else self.heads_abreast(),
                "WORKERS": workers,
                "BULK_STORE": [False] if of_one_loop else [False, True],
            },
            [
                "THREADS == 2 * BLOCK_M",
                f"{self._fixed('DEPTH')} <= {SHARED_BYTES}",
                # With one version a load waits for the product that reads the tile before: on an H200 1.06 to 1.29
                # times as slow as with two, in all ten pairs.
                f"not ROLES or DEPTH > 1 or {self._fixed('2')} > {SHARED_BYTES}",
                "TURNS or (not WAIT_IN_PLACE and HEADS_ABREAST == 1 and WORKERS == 0 and not BULK_STORE)",
                # Else each program has one tile, as without them.
                f"WORKERS < {self.batch * self.heads} * (({self.seq_len_q} + BLOCK_M - 1) // BLOCK_M)",
                # Registers stay in their role; depth and budget are those of roles.
                "not (ROLES and P_SHARED)",
                # Without roles each thread copies: at 176 keys nvcc 13.0 spills 64 to 104 bytes of it.
                "ROLES or BLOCK_N <= 128",
                # One group would wait for itself.
                "not TURNS or (ROLES and BLOCK_M >= 128)",
                "ROLES or (DEPTH == 2 and CONSUMER_REGS == 240)",
                # More than a thread starts with, and no more than the loads' warps give away.
                f"not ROLES or CONSUMER_REGS == 0 or (CONSUMER_REGS * THREADS + {24 * 128} <= {REGISTERS}"
                f" and CONSUMER_REGS * (THREADS + 128) >= {REGISTERS})",
                f"{self._registers} <= (CONSUMER_REGS if ROLES and CONSUMER_REGS else"
                f" min(255, {REGISTERS} // (THREADS + 128 * ROLES)))",
            ],
            BLOCK_M=128,
            BLOCK_N=128,
            THREADS=256,
            P_SHARED=False,
            ROLES=True,
            TURNS=True,
            DEPTH=2,
            CONSUMER_REGS=240,
            WAIT_IN_PLACE=False,
            HEADS_ABREAST=1,
            WORKERS=0,
            BULK_STORE=not of_one_loop and self._stores_in_bulk,
        )

    @property
    def _stores_in_bulk(self) -> bool:
        """Whether a result has room beside Q and two versions of K and V, in tiles of 128 x 128."""
        operands = 2 * 128 * (self.head_dim + 2 * (self.head_dim + self.head_dim_kv))
        return operands + 2 * 128 * self.head_dim_kv <= SHARED_BYTES

    def heads_abreast(self) -> list[Value]:
        """Return the possible numbers of interleaved heads: 1, and three more for causal attention.

        These are all, a power of 2 whose keys and values fill at most half of the L2 cache, and as many as balance
        the load of `WORKERS` best. Elsewhere all tiles take as long, and the cache is used best by those of one
        head.
        """
        fitting = 1 << max(0, self._heads_in_cache.bit_length() - 1)
        heads = self.batch * self.heads
        return [*sorted({1, min(heads, fitting), self._most_balanced_heads, heads} if self.causal else {1})]

    @property
    def _heads_in_cache(self) -> int:
        """Heads whose keys and values fill half of the L2 cache."""
        head_bytes = 2 * self.seq_len_k * (self.head_dim + self.head_dim_kv) * self.kv_heads / self.heads
        return int(L2_BYTES / 2 / head_bytes)

    @property
    def _most_balanced_heads(self) -> int:
        tiles = math.ceil(self.seq_len_q / 128)
        return most_balanced(self.batch * self.heads, tiles, Rates().multiprocessors, self._heads_in_cache)

    def first_changes(self) -> list[dict[str, Value]]:
        """Return configs to try first besides the start. The model of one loop does not cover them."""
        in_place: dict[str, Value] = {"WAIT_IN_PLACE": True}
        working = {**in_place, "WORKERS": Rates().multiprocessors}
        balanced: list[Value] = [self._most_balanced_heads] if self.causal and self._most_balanced_heads > 1 else []
        return [
            working,
            *({**working, "HEADS_ABREAST": heads} for heads in balanced),
            in_place,
            *({**in_place, "HEADS_ABREAST": heads} for heads in reversed(self.heads_abreast()[1:])),
        ]

    @property
    def _registers(self) -> str:
        """Registers that a thread needs for its share of the result, the scores, and the probabilities.

        In turns nvcc 13.0 needs more for barriers: with the same 24 left, 96 to 144 bytes were spilled.
        """
        kept = f"{self.head_dim_kv // 2 + OTHER_REGISTERS} + {TURN_REGISTERS} * TURNS"
        return f"{kept} + BLOCK_N // 2 + (0 if P_SHARED else BLOCK_N // 4)"

    def _fixed(self, depth: str) -> str:
        """Bytes of Q and of the fewest versions of all other buffers, as an expression over the tiles."""
        tiles = f"2 * BLOCK_N * {self.head_dim + self.head_dim_kv} * (1 + ROLES * ({depth} - 1))"
        kept = f"2 * BLOCK_M * {self.head_dim} + {tiles}"
        result = f"BULK_STORE * 2 * BLOCK_M * {self.head_dim_kv}"
        return f"{kept} + {result} + P_SHARED * (2 * BLOCK_M * BLOCK_N + 4 * BLOCK_M)"

    def iterations(self, tiles: Mapping[str, Value]) -> int:
        """Return the number of key tiles of a block, on average for causal attention."""
        keys = float(self.seq_len_k)
        if self.causal:
            blocks = math.ceil(self.seq_len_q / int(tiles["BLOCK_M"]))
            ends = [min(self.seq_len_k, (block + 1) * int(tiles["BLOCK_M"])) for block in range(blocks)]
            keys = sum(ends) / blocks
        return max(1, math.ceil(keys / int(tiles["BLOCK_N"])))

    def rounds(self, tiles: Mapping[str, Value], rates: Rates) -> int:
        """Return how many blocks in a row a multiprocessor executes."""
        blocks = self.batch * self.heads * math.ceil(self.seq_len_q / int(tiles["BLOCK_M"]))
        return math.ceil(blocks / rates.multiprocessors)


def attention_graph(shape: AttentionShape, tiles: Config, rates: Rates) -> Graph:
    """Return the loop over tiles of keys; operations are named as the kernel's constants."""
    m, n, p_shared = int(tiles["BLOCK_M"]), int(tiles["BLOCK_N"]), bool(tiles["P_SHARED"])
    d, dv = shape.head_dim, shape.head_dim_kv

    def cycles(work: float, rate: float) -> int:
        return max(1, math.ceil(work / rate / CLOCKS))

    def use(resource: str, work: float, rate: float) -> dict[str, tuple[int, ...]]:
        return {resource: (1,) * cycles(work, rate)}

    def vector(name: str, work: float, **more: int) -> LoopOperation:
        return LoopOperation(
            name, cycles(work, rates.vector), use("vector", work, rates.vector), one_version=True, **more
        )

    def copy(name: str, dim: int) -> LoopOperation:
        taken = use("copy", 2 * n * dim, rates.copy_bytes)
        return LoopOperation(
            name, len(taken["copy"]) + cycles(rates.copy_latency, 1.0), taken, buffer_bytes=2 * n * dim
        )

    def product(name: str, flops: float, read: float) -> LoopOperation:
        taken = use("tensor", flops, rates.tensor_flops) | use("shared", read, rates.shared_bytes)
        return LoopOperation(name, max(map(len, taken.values())) + 1, taken, one_version=True)

    exp = use("special", m * n, rates.special) | use("vector", m * n, rates.vector)
    scale, cast = cycles(m, rates.special), cycles(m * n, rates.vector / 2)
    operations = (
        copy("COPY_K", d),
        # Each group of 64 rows reads the tile of keys, and its own rows of Q.
        product("QK", 2.0 * m * n * d, 2.0 * (n * d * (m // 64) + m * d)),
        vector("ROW_MAX", m * n),
        LoopOperation("SCALE", scale, {"special": (1,) * scale}, 4 * m * p_shared, one_version=not p_shared),
        LoopOperation("EXP", len(exp["special"]), exp, one_version=True),
        vector("ROW_SUM", m * n),
        LoopOperation("CAST", cast, {"vector": (1,) * cast}, 2 * m * n * p_shared, one_version=not p_shared),
        vector("RESCALE", m * dv),
        copy("COPY_V", dv),
        product("PV", 2.0 * m * n * dv, 2.0 * (n * dv * (m // 64) + m * n * p_shared)),
    )
    latency = {operation.name: operation.latency for operation in operations}
    data = (
        "COPY_K QK", "QK ROW_MAX", "QK EXP", "ROW_MAX SCALE", "ROW_MAX EXP", "SCALE ROW_SUM", "EXP ROW_SUM",
        "EXP CAST", "SCALE RESCALE", "CAST PV", "RESCALE PV", "COPY_V PV",
    )  # fmt: skip
    carried = ("ROW_MAX ROW_MAX", "ROW_SUM ROW_SUM", "PV RESCALE")

    def edges_of(pairs: Iterable[str], distance: int) -> list[Edge]:
        ends = [pair.split() for pair in pairs]
        return [Edge(source, target, latency[source], distance) for source, target in ends]

    edges = [*edges_of(data, 0), *edges_of(carried, 1)]
    # A result of one version is read before it is written again; EXP, in place of the scores, is read so too.
    read = [*((source, target) for source, target in map(str.split, data)), ("QK", "ROW_SUM"), ("QK", "CAST")]
    by_name = {operation.name: operation for operation in operations}
    for source, target in read:
        if by_name[source].one_version:
            edges.append(Edge(target, source, by_name[target].reading, 1, carries_data=False))
    limits = dict.fromkeys(("copy", "shared", "tensor", "vector", "special"), 1)
    # TileLang 0.1.15 pipelines a loop whose length differs between blocks in two stages at most.
    stages = 2 if shape.causal and not tiles["ROLES"] else None
    roles = WarpRoles(("COPY_K", "COPY_V"), int(tiles["DEPTH"]), ("PV",)) if tiles["ROLES"] else None
    return Graph(operations, tuple(edges), limits, SHARED_BYTES - 2 * m * d, stages, roles)
