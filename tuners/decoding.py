"""Decoding: the configs of its kernel that occupancy suggests, without a measurement.

Keys and values are read once, so that a call takes as long as the multiprocessor that reads the most. It has as many
programs at once as shared memory and threads allow; more parts of the keys balance the load, and each adds partial
results that are written and read again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ..core import Config, DeviceLimits, OptionError, SearchSpace, Value

LARGEST_DIM = 256
"""Largest head dimension: a row of the result is in registers."""
MOST_ROWS = 64
"""Queries of a tile, as in the kernel."""
TOGETHER = 4
"""Most programs that a multiprocessor has at once."""
IN_FLIGHT = 32 * 1024
"""Bytes that a multiprocessor must have asked for to get its part of the bandwidth: 25 GB/s times 1.2 us, rounded."""
STEP_BYTES = 8_000
"""Bytes that a multiprocessor reads while a program computes a step, from its scores to its sums; others hide it."""
PROGRAM_BYTES = 25_000
"""Bytes that it reads while a program starts, loads its queries and stores its result: a microsecond."""
LAUNCH_BYTES = 50_000
"""Bytes that it reads during the second launch: two microseconds. None of these was measured."""


@dataclass(frozen=True)
class DecodeShape:
    """Sizes of the problem. Raises `OptionError` for sizes that the kernel cannot have."""

    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    head_dim: int
    head_dim_kv: int
    width: int = 2
    """Bytes of an element."""

    def __post_init__(self) -> None:
        for name, dim in (("head_dim", self.head_dim), ("head_dim_kv", self.head_dim_kv)):
            if dim > LARGEST_DIM:
                raise OptionError(f"`{name}` {dim} is larger than the kernel's tiles", f"use at most {LARGEST_DIM}")
        if self.heads % self.kv_heads:
            raise OptionError(
                f"{self.heads} heads cannot share {self.kv_heads} `num_kv_heads` evenly", "use a divisor of `num_heads`"
            )
        if self.queries > self.keys:
            raise OptionError(
                f"`seq_len_q` {self.queries} are more than the {self.keys} keys of `seq_len_k`",
                "the queries are the newest positions of the cache",
            )
        if self.keys * max(self.head_dim, self.head_dim_kv) >= 2**31:
            raise OptionError(f"`seq_len_k` {self.keys} are too many", "the keys of a head may have 2^31 elements")

    @property
    def rows(self) -> int:
        """Queries that share a head of keys."""
        return self.heads // self.kv_heads * self.queries

    @property
    def tile_rows(self) -> int:
        """Rows of a tile of queries."""
        return min(MOST_ROWS, max(16, 1 << (self.rows - 1).bit_length()))

    @property
    def tiles(self) -> int:
        """Tiles of queries, which no parts of keys divide."""
        return self.batch * self.kv_heads * math.ceil(self.rows / self.tile_rows)

    @property
    def key_bytes(self) -> int:
        """Bytes of a key and its value."""
        return self.width * (self.head_dim + self.head_dim_kv)

    def resident(self, config: Mapping[str, Value], limits: DeviceLimits) -> int:
        """Return how many programs a multiprocessor has at once; 0 if not even one fits. Tiles are padded to powers of
        two."""
        dim, dim_kv = (max(16, 1 << (size - 1).bit_length()) for size in (self.head_dim, self.head_dim_kv))
        buffers = max(1, int(config["NUM_STAGES"]) - 1) * int(config["BLOCK_N"]) * self.width * (dim + dim_kv)
        shared = buffers + self.width * self.tile_rows * dim + limits.described.shared_reserved
        threads = limits.described.warp_size * int(config["NUM_WARPS"])
        return min(limits.described.shared_bytes // shared, limits.threads // threads, TOGETHER)

    def bytes_read(self, config: Mapping[str, Value], limits: DeviceLimits) -> float:
        """Return the bytes that the busiest multiprocessor reads, with a call's other costs as bytes; infinite if a
        program does not fit."""
        block, splits = int(config["BLOCK_N"]), int(config["SPLITS"])
        resident = self.resident(config, limits)
        if not resident:
            return math.inf
        steps = math.ceil(math.ceil(self.keys / block) / splits)
        programs = math.ceil(self.tiles * splits / limits.multiprocessors)
        together = min(programs, resident)
        asked = together * max(1, int(config["NUM_STAGES"]) - 1) * block * self.key_bytes
        step = block * self.key_bytes * max(1.0, IN_FLIGHT / asked) + STEP_BYTES / together
        read = programs * (steps * step + PROGRAM_BYTES / together)
        if splits == 1:
            return read
        partial = 4 * self.batch * self.heads * self.queries * splits * (self.head_dim_kv + 1)
        return read + 2 * partial / limits.multiprocessors + LAUNCH_BYTES

    def likely(self, space: SearchSpace, limits: DeviceLimits, count: int) -> list[tuple[Config, float]]:
        """Return the members of a space that read the least, with their bytes, one of each number and size of parts.

        Those of which no program fits are left out. Of equal ones the one with the fewest parts is first, then that
        nearest to four warps and three stages.
        """

        def order(pair: tuple[Config, float]) -> tuple[float, ...]:
            config, read = pair
            return read, int(config["SPLITS"]), abs(int(config["NUM_WARPS"]) - 4), abs(int(config["NUM_STAGES"]) - 3)

        found: dict[tuple[Value, Value], tuple[Config, float]] = {}
        reads = ((config, self.bytes_read(config, limits)) for config in space)
        fitting = [pair for pair in reads if pair[1] < math.inf]
        for pair in sorted(fitting, key=order):
            found.setdefault((pair[0]["SPLITS"], pair[0]["BLOCK_N"]), pair)
        return list(found.values())[:count]
