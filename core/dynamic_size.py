"""Sizes that are free within a range: polynomials in one size of a problem, which kernels get as an argument.

A `DynamicSize` takes the place of an integer in an `OperatorGraph`. Its text is an expression over the argument.
Comparisons hold for the whole range, or raise `UndecidedSizeError`, so kernels written from such a graph depend on no
single value. It does not convert to `int` implicitly; use `typical` or `largest`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, cast

from .errors import OptionError

PREFIX = "size_"
"""Begins the names of kernels' arguments that are sizes."""
_RANGE = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*(\d+)\s*\.\.\s*(\d+)\s*")


class UndecidedSizeError(Exception):
    """A comparison or quotient depends on the value of a size; the message says which."""


@dataclass(frozen=True)
class FreeSize:
    """A size of a problem that is free within a range."""

    name: str
    low: int
    high: int

    @classmethod
    def of(cls, text: str, option: str) -> FreeSize:
        """Parse the range in an option's value. Raises `OptionError` with the option's name for an invalid one."""
        match = _RANGE.fullmatch(text)
        low, high = (int(match[2]), int(match[3])) if match else (0, 0)
        if match is None or not 1 <= low <= high:
            raise OptionError(f"`{option}` {text!r} is not a range", "write tokens=1..8192")
        return cls(match[1], low, high)

    @property
    def argument(self) -> str:
        """The kernels' argument."""
        return f"{PREFIX}{self.name}"

    @property
    def in_words(self) -> str:
        """'1 <= tokens <= 64'."""
        return f"{self.low} <= {self.name} <= {self.high}"


@dataclass(frozen=True, eq=False)
class DynamicSize:
    """A polynomial of a free size with whole coefficients that is not constant."""

    free: FreeSize
    coefficients: tuple[int, ...]
    """Coefficients of the powers of the size, the constant first."""

    @classmethod
    def of(cls, free: FreeSize, coefficients: tuple[int, ...]) -> int:
        """Return a polynomial, which is a plain number where it is constant."""
        kept = list(coefficients)
        while len(kept) > 1 and not kept[-1]:
            kept.pop()
        return kept[0] if len(kept) < 2 else cast(int, cls(free, tuple(kept)))

    def at(self, value: int) -> int:
        """Return the number at a value of the free size."""
        return sum(factor * value**power for power, factor in enumerate(self.coefficients))

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the largest number in the range. Raises `UndecidedSizeError` if that is not at its ends."""
        slope = self.of(self.free, tuple(power * factor for power, factor in enumerate(self.coefficients))[1:])
        least, most = _bounds(slope)
        if least < 0 < most:
            raise UndecidedSizeError(f"the bounds of {self}")
        ends = self.at(self.free.low), self.at(self.free.high)
        return min(ends), max(ends)

    def __str__(self) -> str:
        name, terms = self.free.argument, list[str]()
        for power, factor in enumerate(self.coefficients):
            if factor and power:
                factors = " * ".join([name] * power)
                terms.append(factors if factor == 1 else f"{factors} * {factor}")
        if self.coefficients[0]:
            terms.append(str(self.coefficients[0]))
        text = " + ".join(terms).replace("+ -", "- ")
        return text if text == name else f"({text})"

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return str(self)

    def __hash__(self) -> int:
        return hash((self.free, self.coefficients))

    def __eq__(self, other: object) -> bool:
        """Return whether both are the same polynomial; one may still have the other's value somewhere."""
        return isinstance(other, DynamicSize) and (self.free, self.coefficients) == (other.free, other.coefficients)

    def __bool__(self) -> bool:
        return True  # not always zero

    def _other(self, value: Any) -> tuple[int, ...] | None:
        if isinstance(value, DynamicSize):
            return value.coefficients
        return (value,) if isinstance(value, int) else None

    def __add__(self, other: Any) -> Any:
        given = self._other(other)
        if given is None:
            return NotImplemented
        pairs = zip_longest(self.coefficients, given, fillvalue=0)
        return DynamicSize.of(self.free, tuple(map(sum, pairs)))

    __radd__ = __add__

    def __neg__(self) -> Any:
        return self * -1

    def __sub__(self, other: Any) -> Any:
        return NotImplemented if self._other(other) is None else self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        given = self._other(other)
        if given is None:
            return NotImplemented
        found = [0] * (len(self.coefficients) + len(given) - 1)
        for place, factor in enumerate(self.coefficients):
            for further, other_factor in enumerate(given):
                found[place + further] += factor * other_factor
        return DynamicSize.of(self.free, tuple(found))

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        return _quotient(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _quotient(other, self)

    def __mod__(self, other: Any) -> Any:
        return self - _quotient(self, other) * other

    def __rmod__(self, other: Any) -> Any:
        return other - _quotient(other, self) * self

    def __lt__(self, other: Any) -> bool:
        least, most = _bounds(self - other)
        if least < 0 <= most:
            raise UndecidedSizeError(f"whether {self} is below {other}")
        return most < 0

    def __ge__(self, other: Any) -> bool:
        return not self < other

    def __gt__(self, other: Any) -> bool:
        return not self < other + 1

    def __le__(self, other: Any) -> bool:
        return not self > other


def typical(size: int) -> int:
    """Return a size at the upper end of the range, where tiles are chosen and costs estimated."""
    return size.at(size.free.high) if isinstance(size, DynamicSize) else size


def is_dynamic(size: int) -> bool:
    """Return whether a size is free."""
    return isinstance(size, DynamicSize)


def largest(size: int) -> int:
    """Return the largest number that a size may be."""
    return _bounds(size)[1]


def smallest(size: int) -> int:
    """Return the smallest number that a size may be."""
    return _bounds(size)[0]


def at_least_zero(size: int) -> int:
    """Return a size where it is not negative, and 0 where it is not positive."""
    least, most = _bounds(size)
    if least < 0 < most:
        raise UndecidedSizeError(f"the sign of {size}")
    return size if least >= 0 else 0


def is_below(size: int, other: int) -> bool:
    """Return whether a size is below another in the whole range."""
    try:
        return size < other
    except UndecidedSizeError:
        return False


def divides(divisor: int, size: int) -> bool:
    """Return whether a size is a multiple of a divisor in the whole range."""
    try:
        return not size % divisor if isinstance(size % divisor, int) else False
    except UndecidedSizeError:
        return False


def at_most_quotient(size: int, divisor: int) -> int:
    """Return the quotient of two sizes, or a number that it is at most."""
    try:
        return size // divisor
    except UndecidedSizeError:
        return _bounds(size)[1] // _bounds(divisor)[0]


def _bounds(size: Any) -> tuple[int, int]:
    return size.bounds if isinstance(size, DynamicSize) else (size, size)


def _quotient(size: Any, divisor: Any) -> Any:
    """Return the polynomial that is the quotient, rounded down, in the whole range."""
    free = size.free if isinstance(size, DynamicSize) else divisor.free
    left, by = list(_coefficients(size)), _coefficients(divisor)
    found = [0] * max(1, len(left) - len(by) + 1)
    for place in range(len(left) - len(by), -1, -1):
        found[place] = left[place + len(by) - 1] // by[-1]
        for further, factor in enumerate(by):
            left[place + further] -= found[place] * factor
    quotient = DynamicSize.of(free, tuple(found))
    for candidate in (quotient, quotient - 1):
        rest = size - candidate * divisor
        if _bounds(rest)[0] >= 0 and _bounds(divisor - rest)[0] > 0:
            return candidate
    raise UndecidedSizeError(f"the quotient of {size} and {divisor}")


def _coefficients(size: Any) -> tuple[int, ...]:
    return size.coefficients if isinstance(size, DynamicSize) else (size,)
