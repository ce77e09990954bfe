"""What is known of a register in the 32 lanes of any warp: an offset per lane, plus a part that all lanes share."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

LANES = 32
SIZE = 4096
"""What a parameter of a launch is taken to be where lanes differ by it: a row's length, which is at least a sector."""
Lanes = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class LaneValue:
    """A 32-bit value of which each lane has `lanes[i]` plus an unknown multiple of `step`, the same in all lanes.

    Of a 64-bit address the low word is followed. Blocks are taken to be one-dimensional, or of rows of whole warps.
    """

    lanes: Lanes
    step: int = 0
    """0: the value is known exactly."""
    sources: frozenset[str] = frozenset()
    """Parameters of the kernel, by their offset, that were added in: a tensor's address is one."""
    size: bool = False
    """Whether it comes from parameters by arithmetic only, as the length of a row does."""

    @property
    def uniform(self) -> bool:
        """Whether all lanes have the same value."""
        return bool((self.lanes == self.lanes[0]).all())

    def same(self, other: LaneValue) -> bool:
        """Return whether both say the same."""
        return (
            self.step == other.step and self.sources == other.sources and bool(np.array_equal(self.lanes, other.lanes))
        )


def exact(number: int) -> LaneValue:
    """Return a constant."""
    return LaneValue(np.full(LANES, number, dtype=np.int64))


def unknown(step: int = 1, *sources: str) -> LaneValue:
    """Return a value that all lanes share: a parameter of the kernel, if its offset is given."""
    return LaneValue(np.zeros(LANES, dtype=np.int64), step, frozenset(sources), bool(sources))


LANE = LaneValue(np.arange(LANES, dtype=np.int64))
THREAD = LaneValue(np.arange(LANES, dtype=np.int64), LANES)


def add(left: LaneValue | None, right: LaneValue | None) -> LaneValue | None:
    """Return the sum."""
    if left is None or right is None:
        return None
    return LaneValue(
        left.lanes + right.lanes, math.gcd(left.step, right.step), left.sources | right.sources, _size(left, right)
    )


def _size(left: LaneValue, right: LaneValue) -> bool:
    """Return whether a result is a size: one operand is, and the other is a size or a constant of all lanes."""
    constants = [value.step == 0 and value.uniform for value in (left, right)]
    return (left.size or constants[0]) and (right.size or constants[1]) and (left.size or right.size)


def multiply(left: LaneValue | None, right: LaneValue | None) -> LaneValue | None:
    """Return the product; None if lanes differ by a factor that is neither known nor a size."""
    if left is None or right is None:
        return None
    if left.step == right.step == 0:
        return LaneValue(left.lanes * right.lanes)
    for number, other in ((left, right), (right, left)):
        if number.step == 0 and number.uniform:
            factor = int(number.lanes[0])
            return LaneValue(other.lanes * factor, abs(other.step * factor), size=other.size)
    for size, other in ((left, right), (right, left)):
        if size.size and size.uniform:
            return LaneValue(other.lanes * SIZE, 1, size=other.size)
    if not left.uniform or not right.uniform:
        return None
    # The product of a multiple of one number and a multiple of another.
    whole = not left.lanes[0] and not right.lanes[0]
    return unknown(left.step * right.step if whole else 1)


def shift_left(value: LaneValue | None, by: LaneValue | None) -> LaneValue | None:
    """Return `value << by`."""
    if by is None or by.step or not by.uniform:
        return unknown() if value is not None and by is not None and value.uniform and by.uniform else None
    return multiply(value, exact(1 << int(by.lanes[0] & 31)))


def shift_right(value: LaneValue | None, by: LaneValue | None) -> LaneValue | None:
    """Return `value >> by`."""
    if value is None or by is None:
        return None
    if by.step == 0 and by.uniform:
        bits = int(by.lanes[0] & 31)
        if value.step == 0:
            return LaneValue(value.lanes >> bits)
        power = value.step & -value.step
        if power % (1 << bits) == 0:
            return LaneValue(value.lanes >> bits, power >> bits)
        if (kept := _within(value.lanes, power)) is not None and not (kept >> bits).any():
            return unknown()
    return unknown() if value.uniform and by.uniform else None


def _within(lanes: Lanes, power: int) -> Lanes | None:
    """Return offsets in 0..power-1 that differ from `lanes` by a multiple of `power` that all lanes share."""
    moved = lanes - lanes.min() // power * power
    return moved if moved.max() < power else None


def bitwise(table: int, operands: Sequence[LaneValue | None]) -> LaneValue | None:
    """Return LOP3's result: bit `4a + 2b + c` of `table` for each bit of the three operands.

    Bits below every operand's step are known; those above are, where no unknown bit changes them.
    """
    steps = [value.step & -value.step for value in operands if value is not None and value.step]
    if any(value is None for value in operands):
        return _masked(table, operands)
    known = [value for value in operands if value is not None]
    if not steps:
        return LaneValue(_lookup(table, [value.lanes for value in known]))
    power = min(steps)
    low = _lookup(table, [value.lanes & (power - 1) for value in known]) & (power - 1)
    high = _high_bits(table, known, power)
    if high is not None:
        return LaneValue(low + high)
    fits = all(_within(value.lanes, power) is not None or (value.lanes // power == value.lanes[0] // power).all()
               for value in known)  # fmt: skip
    return LaneValue(low, power) if fits else None


def _high_bits(table: int, known: Sequence[LaneValue], power: int) -> Lanes | None:
    """Return the bits from `power` on, if they are the same whatever the unknown bits are."""
    choices: list[list[Lanes]] = []
    for value in known:
        if value.step:
            zeros = np.zeros(LANES, dtype=np.int64)
            choices.append([zeros, zeros - 1])
        else:
            choices.append([value.lanes])
    results = [_lookup(table, list(chosen)) & ~(power - 1) & 0xFFFFFFFF for chosen in itertools.product(*choices)]
    return results[0] if all(np.array_equal(results[0], other) for other in results[1:]) else None


def _masked(table: int, operands: Sequence[LaneValue | None]) -> LaneValue | None:
    """Return zero if a mask clears everything that is not known; otherwise None."""
    zeros = np.zeros(LANES, dtype=np.int64)
    known = [LaneValue(zeros, 1) if value is None else value for value in operands]
    high = _high_bits(table, known, 1)
    return LaneValue(high) if high is not None else None


def _lookup(table: int, operands: Sequence[Lanes]) -> Lanes:
    result = np.zeros(LANES, dtype=np.int64)
    for row in range(8):
        if table >> row & 1:
            term = np.full(LANES, -1, dtype=np.int64)
            for operand, bit in zip(operands, (4, 2, 1), strict=True):
                term &= operand if row & bit else ~operand
            result |= term
    return result & 0xFFFFFFFF


def join(left: LaneValue | None, right: LaneValue | None) -> LaneValue | None:
    """Return what holds of a register that has one value or the other, the same choice in all lanes."""
    if left is None or right is None or left is right:
        return left if left is right else None
    apart = right.lanes - left.lanes
    if not (apart == apart[0]).all():
        return None
    step = math.gcd(math.gcd(left.step, right.step), abs(int(apart[0])))
    return LaneValue(left.lanes, step, left.sources | right.sources)


COMPARISONS: dict[str, Callable[[Lanes, Lanes], Lanes]] = {
    "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal, "EQ": np.equal, "NE": np.not_equal,
}  # fmt: skip
