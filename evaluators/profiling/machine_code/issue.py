"""Times one warp that executes a stretch of code alone: in order, one instruction a cycle, waiting for operands.

Latencies in cycles are those that microbenchmarks of Hopper and Ampere published (Luo et al.: Benchmarking and
Dissecting the Nvidia Hopper GPU Architecture, 2024; Abdelkhalik et al.: Demystifying the Nvidia Ampere Architecture,
2022). They are rounded: the model finds what is waited for, and roughly how long; it does not predict a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from ....core.compiled_code import LongestWait
from .kinds import kind_of
from .listing import Instruction, registers_of, wide

LATENCY = {
    "fp32": 4, "integer": 4, "fp64": 16, "special": 18, "conversion": 14, "matrix": 33, "shared": 29, "local": 33,
    "global": 480, "atomic": 480, "barrier": 20, "shuffle": 24, "constant": 30, "other": 6,
}  # fmt: skip
"""Cycles from an instruction's issue to the use of its result. Global memory: between a hit in L2 and a miss."""
BUSY = {"special": 8, "fp64": 2}
"""Cycles for which an instruction of a warp occupies its unit of a scheduler, where that is more than one."""
WGMMA = 128
"""Cycles of a 64x256x16 wgmma at full rate; narrower ones take their part of it."""
NAMES = {
    "global": "load", "atomic": "atomic operation", "shared": "load from shared memory", "local": "reload of a spill",
    "matrix": "matrix instruction", "special": "special function", "fp64": "double-precision arithmetic",
    "fp32": "arithmetic", "integer": "arithmetic", "conversion": "conversion", "barrier": "barrier",
    "shuffle": "shuffle", "constant": "load of a constant", "other": "result",
}  # fmt: skip
ROUNDS = 3
"""Passes of a loop; the last one counts, which begins with what earlier ones left under way."""


@dataclass
class _Pending:
    """A result that is not there yet."""

    ready: float
    kind: str
    line: int | None


@dataclass
class WarpRun:
    """What executing a stretch of code came to."""

    cycles: float
    issued: int
    waits: dict[tuple[str, int | None, int | None], float] = field(default_factory=dict)
    """Cycles by what was waited for, the line that produced it, and the line that waits."""
    matrix_cycles: float = 0
    """Cycles in which wgmma of this warp's group run."""
    in_flight: int = 0
    """Bytes of a warp that were requested from global memory at once, at the first wait for one of them."""

    def longest(self) -> LongestWait | None:
        """Return the wait that takes most cycles."""
        if not self.waits:
            return None
        (kind, produced, line), cycles = max(self.waits.items(), key=lambda item: item[1])
        return LongestWait(cycles=cycles, producer=NAMES.get(kind, kind), produced_line=produced, line=line)


def run(code: Sequence[Instruction], rounds: int = ROUNDS) -> WarpRun:
    """Execute code `rounds` times in sequence, and return what the last round came to."""
    clock, pending = 0.0, dict[str, _Pending]()
    copies: list[_Pending] = []
    products: list[_Pending] = []
    found = WarpRun(0, 0)
    free: defaultdict[str, float] = defaultdict(float)
    for _ in range(rounds):
        start, waits, bytes_asked, first_wait = (
            clock,
            defaultdict[tuple[str, int | None, int | None], float](float),
            0,
            0,
        )
        issued = 0
        for item in code:
            needed = _awaited(item, pending, copies, products)
            late = max(needed, key=lambda entry: entry.ready, default=None)
            if late is not None and late.ready > clock:
                waits[late.kind, late.line, item.line] += late.ready - clock
                if late.kind == "global" and not first_wait:
                    first_wait = bytes_asked
                clock = late.ready
            kind = kind_of(item)
            if free[kind] > clock:
                waits[kind, item.line, item.line] += free[kind] - clock
                clock = free[kind]
            free[kind] = clock + BUSY.get(kind, 0)
            bytes_asked += 32 * _width(item) if kind == "global" and _loads(item) else 0
            clock += 1
            issued += 1
            _produce(item, kind, clock, pending, copies, products)
        busy = sum(map(_wgmma_cycles, filter(_is_wgmma, code)))
        found = WarpRun(max(clock - start, 1.0), issued, dict(waits), busy, first_wait or bytes_asked)
    return found


def _awaited(
    item: Instruction, pending: dict[str, _Pending], copies: list[_Pending], products: list[_Pending]
) -> list[_Pending]:
    """Return the results that an instruction waits for."""
    if item.name == "WARPGROUP" and item.has("DEPBAR"):
        return _oldest(products, item)
    if item.name == "DEPBAR":
        return _oldest(copies, item)
    names = registers_of([item.guard, *item.operands[_targets(item) :]])
    for operand in item.operands[_targets(item) :]:
        names |= _further(item, operand)
    # A result is not overwritten before it is there.
    names |= _written(item)
    return [pending[name] for name in names if name in pending]


def _oldest(groups: list[_Pending], item: Instruction) -> list[_Pending]:
    """Return the groups that a wait for all but the newest N waits for, and forget them."""
    last = item.operands[-1] if item.operands else "0x0"
    left = int(last, 0) if last.startswith("0x") else 0
    ended = groups[: max(0, len(groups) - left)]
    del groups[: len(ended)]
    return ended


def _produce(
    item: Instruction,
    kind: str,
    clock: float,
    pending: dict[str, _Pending],
    copies: list[_Pending],
    products: list[_Pending],
) -> None:
    if _is_wgmma(item):
        busy = products[-1].ready if products else clock
        entry = _Pending(max(busy, clock) + _wgmma_cycles(item), "wgmma", item.line)
        if products and not any("gsb" in part for part in item.operands):
            products[-1] = entry
        else:
            products.append(entry)
        return
    if item.name == "LDGDEPBAR":
        copies.append(_Pending(clock + LATENCY["global"], "global", item.line))
        return
    latency = LATENCY.get(kind, LATENCY["other"])
    for name in _written(item):
        pending[name] = _Pending(clock + latency, kind, item.line)


def _is_wgmma(item: Instruction) -> bool:
    return item.name in ("HGMMA", "QGMMA", "IGMMA", "BGMMA")


def _wgmma_cycles(item: Instruction) -> float:
    shape = next((part for part in item.opcode.split(".") if part.count("x") == 2), "64x256x16")
    return WGMMA * int(shape.split("x")[1]) / 256


def _targets(item: Instruction) -> int:
    """Return how many leading operands an instruction writes."""
    if kind_of(item) == "barrier" or item.name in (
        "STG",
        "STS",
        "STL",
        "ST",
        "RED",
        "REDG",
        "BRA",
        "EXIT",
        "LDGSTS",
        "STSM",
    ):
        return 0
    if item.name.startswith("UTMA") or item.name in ("UBLKCP", "CCTL", "BSSY", "BSYNC"):
        return 0  # the registers are addresses
    if item.name in ("ISETP", "FSETP", "UISETP", "DSETP", "HSETP2", "PLOP3", "FCHK"):
        return min(2, len(item.operands))
    count = 0
    while count < len(item.operands) and item.operands[count].lstrip("U").startswith("P") and count < 2:
        count += 1
    return min(count + 1, len(item.operands))


def _written(item: Instruction) -> set[str]:
    names = registers_of(item.operands[: _targets(item)])
    words = 4 if item.has("128") else 2 if item.has("64") or item.has("WIDE") else 1
    if item.name in ("HMMA", "IMMA"):
        words = 4
    return names | {further for name in names if name.lstrip("U").startswith("R") for further in wide(name, words)}


def _further(item: Instruction, operand: str) -> set[str]:
    """Return the further registers of a wide operand: stored values, addresses, operands of matrix instructions."""
    names = {name for name in registers_of([operand]) if name.lstrip("U").startswith("R")}
    address = ".64" in operand
    words = 2 if address else 1
    if item.name in ("HMMA", "IMMA"):
        words = 4
    elif item.name in ("STG", "STS", "STL", "ST") and "[" not in operand:
        words = 4 if item.has("128") else 2 if item.has("64") else 1
    elif item.name in ("DADD", "DMUL", "DFMA"):
        words = 2
    return {further for name in names for further in wide(name, words)}


def _loads(item: Instruction) -> bool:
    return item.name in ("LDG", "LD", "LDGSTS")


def _width(item: Instruction) -> int:
    return 16 if item.has("128") else 8 if item.has("64") else 2 if item.has("U16") else 1 if item.has("U8") else 4
