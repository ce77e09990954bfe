"""Integer expressions of a kernel's indices: sums of multiples of symbols, with their known ranges.

Views of tensors become arithmetic on indices: a reshape takes a linear index apart by quotients and remainders. These
sums keep such expressions short: multiples of a divisor are taken out of it, and terms that are known to be smaller
than it vanish.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import prod

from ...core.dynamic_size import UndecidedSizeError, at_least_zero, at_most_quotient, divides, is_below, typical


@dataclass(frozen=True)
class Symbol:
    """A name of the kernel's text that stands for an integer from 0 up to below `extent`."""

    text: str
    extent: int
    masks: frozenset[str] = frozenset()
    """Conditions, as text, under which it is in its range."""
    quotient: tuple[Index, int, bool] | None = field(default=None, compare=False)
    """The sum and the divisor of which this is the quotient, or (True) the remainder."""


@dataclass(frozen=True)
class Index:
    """A sum of multiples of symbols, and a number."""

    terms: tuple[tuple[Symbol, int], ...] = ()
    """Sorted by the symbols' texts, without zeros."""
    offset: int = 0

    @classmethod
    def of(cls, item: Symbol | int) -> Index:
        """Return one symbol, or one number, as a sum."""
        return cls(((item, 1),)) if isinstance(item, Symbol) else cls((), item)

    @property
    def masks(self) -> frozenset[str]:
        """Conditions under which all symbols are in their ranges."""
        return frozenset[str]().union(*(symbol.masks for symbol, _ in self.terms))

    @property
    def least(self) -> int:
        """A lower bound."""
        return self.offset + sum(-at_least_zero(-factor * (symbol.extent - 1)) for symbol, factor in self.terms)

    @property
    def most(self) -> int:
        """An upper bound."""
        return self.offset + sum(at_least_zero(factor * (symbol.extent - 1)) for symbol, factor in self.terms)

    def plus(self, other: Index | int) -> Index:
        """Return the sum of two sums."""
        other = other if isinstance(other, Index) else Index((), other)
        factors: dict[Symbol, int] = dict(self.terms)
        for symbol, factor in other.terms:
            factors[symbol] = factors.get(symbol, 0) + factor
        return _joined(factors, self.offset + other.offset)

    def times(self, factor: int) -> Index:
        """Return a multiple."""
        return _sum({symbol: own * factor for symbol, own in self.terms}, self.offset * factor)

    def over(self, divisor: int) -> Index:
        """Return the quotient, rounded down. The sum must not be negative."""
        outside, inside = self._split(divisor)
        if is_below(inside.most, divisor) and inside.least >= 0:
            return outside
        whole = inside if inside.least >= 0 else self
        base = outside if whole is inside else Index()
        if (parts := whole._coarse(divisor)) is not None:
            return base.plus(parts[0].over(divisor // parts[2]))
        extent = at_most_quotient(whole.most, divisor) + 1
        symbol = Symbol(f"({whole.text}) // {divisor}", extent, whole.masks, (whole, divisor, False))
        return base.plus(Index.of(symbol))

    def modulo(self, divisor: int) -> Index:
        """Return the remainder. The sum must not be negative."""
        _, inside = self._split(divisor)
        if is_below(inside.most, divisor) and inside.least >= 0:
            return inside
        whole = inside if inside.least >= 0 else self
        if (parts := whole._coarse(divisor)) is not None:
            return parts[0].modulo(divisor // parts[2]).times(parts[2]).plus(parts[1])
        return Index.of(Symbol(f"({whole.text}) % {divisor}", divisor, whole.masks, (whole, divisor, True)))

    def _coarse(self, divisor: int) -> tuple[Index, Index, int] | None:
        """Return a, b and f, where the sum is a * f + b, f divides the divisor, and b is from 0 up to below f."""
        units = {factor for _, factor in self.terms if is_below(1, factor) and divides(factor, divisor)}
        for unit in sorted(units, key=typical):
            coarse, rest = self._split(unit)
            if coarse.least >= 0 and rest.terms and rest.least >= 0 and is_below(rest.most, unit):
                return coarse, rest, unit
        return None

    def _split(self, divisor: int) -> tuple[Index, Index]:
        """Return the quotient of the terms that the divisor divides, and the remaining terms."""
        whole = {symbol for symbol, factor in self.terms if divides(divisor, factor)}
        outside = {symbol: factor // divisor for symbol, factor in self.terms if symbol in whole}
        inside = {symbol: factor for symbol, factor in self.terms if symbol not in whole}
        try:
            return _sum(outside, self.offset // divisor), _sum(inside, self.offset % divisor)
        except UndecidedSizeError:
            return _sum(outside, 0), _sum(inside, self.offset)

    @property
    def text(self) -> str:
        """The expression as Python."""
        parts = [_product(symbol.text, factor) for symbol, factor in self.terms]
        if self.offset or not parts:
            parts.append(str(self.offset))
        return " + ".join(parts).replace("+ -", "- ")


def linear(indices: Sequence[Index], shape: Sequence[int]) -> Index:
    """Return the position of an element of a contiguous tensor."""
    total = Index()
    for index, stride in zip(indices, strides(shape), strict=True):
        total = total.plus(index.times(stride))
    return total


def apart(position: Index, shape: Sequence[int]) -> tuple[Index, ...]:
    """Return the indices of the element at a position of a contiguous tensor."""
    found: list[Index] = []
    left = position
    for place in range(len(shape) - 1, -1, -1):
        size = shape[place]
        if size == 1:
            found.append(Index())
        elif is_below(left.most, size):
            found.append(left)
            left = Index()
        else:
            found.append(left.modulo(size))
            left = left.over(size)
    return tuple(reversed(found))


def broadcast(indices: Sequence[Index], shape: Sequence[int]) -> tuple[Index, ...]:
    """Return the indices in a tensor of this shape, broadcast, of the element that has these in the result."""
    kept = indices[len(indices) - len(shape) :]
    return tuple(Index() if size == 1 else index for index, size in zip(kept, shape, strict=True))


def strides(shape: Sequence[int]) -> list[int]:
    """Return the strides of a contiguous tensor."""
    return [prod(shape[place + 1 :]) for place in range(len(shape))]


def masks_of(indices: Iterable[Index]) -> frozenset[str]:
    """Return the conditions under which all indices are in their ranges."""
    return reduce(frozenset.union, (index.masks for index in indices), frozenset())


def _product(text: str, factor: int) -> str:
    if factor == 1:
        return text if "//" not in text and "%" not in text else f"({text})"
    return f"({text}) * {factor}" if " " in text else f"{text} * {factor}"


def _sum(factors: dict[Symbol, int], offset: int) -> Index:
    kept = sorted(((symbol, factor) for symbol, factor in factors.items() if factor), key=lambda item: item[0].text)
    return Index(tuple(kept), offset)


def _joined(factors: dict[Symbol, int], offset: int) -> Index:
    """Return a sum in which a quotient times its divisor plus the remainder is replaced by the dividend."""
    for symbol, factor in factors.items():
        if symbol.quotient is None or symbol.quotient[2] or not factor:
            continue
        whole, divisor, _ = symbol.quotient
        for other, other_factor in factors.items():
            if other.quotient == (whole, divisor, True) and other_factor * divisor == factor and other_factor:
                rest = {item: value for item, value in factors.items() if item not in (symbol, other)}
                return _sum(rest, offset).plus(whole.times(other_factor))
    return _sum(factors, offset)
