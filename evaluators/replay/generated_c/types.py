"""The types of generated C, and the values that its integers can have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Literal

from ..values import UnplannableCallError


@dataclass(frozen=True)
class Interval:
    """All integers from `low` to `high`."""

    low: int
    high: int

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def __sub__(self, other: Interval) -> Interval:
        return self + -other

    def __mul__(self, other: Interval) -> Interval:
        return hull(item * two for item in (self.low, self.high) for two in (other.low, other.high))

    def __or__(self, other: Interval) -> Interval:
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def within(self, other: Interval) -> bool:
        """Return whether all of it lies in the other one."""
        return other.low <= self.low and self.high <= other.high

    def met(self, low: int, high: int) -> Interval:
        """Return what lies between two bounds too; itself where that is nothing, which only dead code can have."""
        low, high = max(low, self.low), min(high, self.high)
        return Interval(low, high) if low <= high else self


def hull(numbers: Iterable[int]) -> Interval:
    """Return the least interval that contains all the numbers."""
    return reduce(Interval.__or__, (Interval(number, number) for number in numbers))


def quotients(dividend: Interval, divisor: Interval) -> Interval:
    """Return the quotients of C, which rounds to zero; the divisor is not zero."""
    ends = [item for item in (divisor.low, divisor.high, -1, 1) if divisor.low <= item <= divisor.high and item]
    return hull(_quotient(item, two) for item in (dividend.low, dividend.high, *_zero(dividend)) for two in ends)


def remainders(dividend: Interval, divisor: Interval) -> Interval:
    """Return the remainders of C, which have the dividend's sign; the divisor is not zero."""
    most = max(abs(divisor.low), abs(divisor.high)) - 1
    low = max(-most, dividend.low) if dividend.low < 0 else 0
    return Interval(low, min(most, dividend.high) if dividend.high > 0 else 0)


def _zero(interval: Interval) -> tuple[int, ...]:
    return (0,) if interval.low <= 0 <= interval.high else ()


def _quotient(dividend: int, divisor: int) -> int:
    size = abs(dividend) // abs(divisor)
    return size if (dividend < 0) == (divisor < 0) else -size


@dataclass(frozen=True)
class CType:
    """A type: its name as the compiler gets it, its size in bytes, and what kind of values it has."""

    name: str
    size: int
    family: Literal["bool", "integer", "float", "vector"]
    interval: Interval = Interval(0, 0)
    """The values that bool and integer types can hold."""
    element: CType | None = None
    """The type of a vector's elements."""

    @property
    def whole(self) -> bool:
        """Whether its values are integers."""
        return self.family in ("bool", "integer")

    @property
    def stored(self) -> str:
        """The name of the type in memory, where a byte may be anything and a bool may not."""
        return "uint8_t" if self is BOOL else self.name

    @property
    def unsigned(self) -> str:
        """The name of the type in which its arithmetic wraps around."""
        return self.name if self.name.startswith("u") else f"u{self.name}"


def _integer(bits: int, signed: bool) -> CType:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return CType(f"{'' if signed else 'u'}int{bits}_t", bits // 8, "integer", Interval(low, high))


BOOL = CType("bool", 1, "bool", Interval(0, 1))
INT32, INT64, UINT32, UINT64 = (_integer(bits, signed) for signed in (True, False) for bits in (32, 64))
_INTEGERS = (INT32, INT64, UINT32, UINT64, *(_integer(bits, signed) for bits in (8, 16) for signed in (True, False)))
HALF, FLOAT, DOUBLE = (CType(name, size, "float") for name, size in (("half", 2), ("float", 4), ("double", 8)))
_SCALARS = {item.name: item for item in (BOOL, HALF, FLOAT, DOUBLE, *_INTEGERS)}
_VECTORS = {
    f"{item.name}{lanes}": CType(f"{item.name}{lanes}", item.size * lanes, "vector", element=item)
    for item in (HALF, FLOAT, DOUBLE, *_INTEGERS)
    for lanes in (2, 4, 8, 16)
}
"""Definitions from TileLang's header."""
_SPELLED = {
    "char": "int8_t", "char signed": "int8_t", "char unsigned": "uint8_t", "short": "int16_t",
    "int short": "int16_t", "short unsigned": "uint16_t", "int": "int32_t", "signed": "int32_t",
    "unsigned": "uint32_t", "int unsigned": "uint32_t", "long": "int64_t", "int long": "int64_t",
    "long long": "int64_t", "long unsigned": "uint64_t", "int long unsigned": "uint64_t",
    "long long unsigned": "uint64_t", "size_t": "uint64_t",
}  # fmt: skip
"""C's own names for them, where an int has 32 bits and a long 64."""
TYPE_NAMES = (*({*_SCALARS} - {"float", "double"}), *_VECTORS, "size_t")
"""Names that a C parser must know as types."""


def type_named(words: Iterable[str]) -> CType:
    """Return the type of these words. Raises `UnplannableCallError` where there is none."""
    name = " ".join(sorted(words))
    found = (_SCALARS | _VECTORS).get(_SPELLED.get(name, name))
    if found is None:
        raise UnplannableCallError(f"the type '{name}'")
    return found


def promoted(ctype: CType) -> CType:
    """Return the type that an integer has in arithmetic."""
    return INT32 if ctype.whole and ctype.size < 4 else ctype


def common(left: CType, right: CType) -> CType:
    """Return the type in which two numbers are added. Raises `UnplannableCallError` for vectors."""
    if "vector" in (left.family, right.family):
        raise UnplannableCallError("a vector among numbers")
    floats = [kind for kind in (left, right) if kind.family == "float"]
    if floats:
        return max(floats, key=lambda kind: kind.size)
    left, right = promoted(left), promoted(right)
    if left.size != right.size:
        return max(left, right, key=lambda kind: kind.size)
    return left if left.interval.low == 0 else right
