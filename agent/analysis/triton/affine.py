"""Reads a numbered value as a sum of indices, each times its stride, whatever names it went through."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from .linear import Stride
from .values import Part, Values

Index = tuple[int, str]
"""A value and, for `tl.arange`, the axis of the tile that it lies on: 'row', 'column' or ''."""
_AXES = {"[:, None]": "row", "[None, :]": "column"}


@dataclass(frozen=True)
class Affine:
    """Reads values of one function, whose sizes are parameters that it does not change."""

    values: Values
    sizes: Collection[str]

    def strides(self, number: int) -> Mapping[Index, Stride] | None:
        """Return the stride of each index in a sum; None where a term has two indices, or two terms share one.

        A term without an index has that of the number one.
        """
        found: dict[Index, Stride] = {}
        for count, factors in self._terms(number, ""):
            sizes = [str(self.values.key(one)[1]) for one, _ in factors if self._is_size(one)]
            indices = [one for one in factors if not self._is_size(one[0])]
            index = indices[0] if indices else (self.values.of("1"), "")
            if len(indices) > 1 or index in found:
                return None
            found[index] = Stride(count, tuple(sorted(sizes)))
        return found

    def size(self, number: int) -> Stride | None:
        """Return a value as a product of sizes; None for any other."""
        strides = self.strides(number)
        one = (self.values.of("1"), "")
        return strides[one] if strides is not None and set(strides) == {one} else None

    def lanes(self, index: Index) -> int | None:
        """Return the number of the width of `tl.arange(0, width)`; None for another index."""
        call = self.call(index[0])
        if call is None or call[0] != self.values.of("tl.arange") or len(call[1]) != 2:
            return None
        return call[1][1] if self.values.constant(call[1][0]) == 0 else None

    def is_scalar(self, index: Index) -> bool:
        """Return whether nothing in an index is a vector."""
        return not any(self.lanes((part, "")) is not None for part in self.values.parts(index[0]))

    def call(self, number: int) -> tuple[int, tuple[int, ...]] | None:
        """Return the function and the plain arguments of a call without others."""
        key = self.values.key(number)
        if key[0] != "Call" or not isinstance(key[1], int) or not isinstance(key[2], tuple):
            return None
        return key[1], tuple(one for one in key[2] if isinstance(one, int))

    def plain(self, number: int) -> int:
        """Return a value without its shape and its type: of `tl.broadcast_to(x, ...)`, `x.to(...)`, `x[:, None]`."""
        inner = self._inside(number)
        return number if inner is None else self.plain(inner[0])

    def conditions(self, mask: int) -> Iterator[int]:
        """Yield the conditions that a mask joins."""
        key = self.values.key(mask)
        if key[0] == "&":
            for part in key[1:]:
                assert isinstance(part, int)
                yield from self.conditions(part)
        elif (inner := self._inside(mask)) is not None:
            yield from self.conditions(inner[0])
        else:
            yield mask

    def less(self, condition: int) -> tuple[int, int] | None:
        """Return both sides of `left < right`; None for another condition."""
        kind, *rest = self.values.key(condition)
        if kind != "Compare" or rest[1] != ("Lt()",) or not isinstance(rest[2], tuple):
            return None
        left, (right,) = rest[0], rest[2]
        assert isinstance(left, int) and isinstance(right, int)
        return left, right

    def _inside(self, number: int) -> tuple[int, str] | None:
        """Return what a change of shape or type is made to, and the axis that it adds."""
        key = self.values.key(number)
        if key[0] == "Subscript" and isinstance(key[1], Part):
            for text, axis in _AXES.items():
                if self.values.key(self.values.of(f"_{text}"))[2] == key[2]:
                    return key[1], axis
        if key[0] == "Call" and isinstance(key[1], int):
            function = self.values.key(key[1])
            if key[1] == self.values.of("tl.broadcast_to") and isinstance(key[2], tuple):
                return key[2][0], ""
            if function[0] == "Attribute" and function[2] in ("to", "broadcast_to") and isinstance(function[1], int):
                return function[1], ""
        return None

    def _is_size(self, number: int) -> bool:
        key = self.values.key(number)
        return key[0] == "name" and key[1] in self.sizes

    def _terms(self, number: int, axis: str) -> list[tuple[int, tuple[Index, ...]]]:
        """Return the terms of a sum, each a number and its factors."""
        key = self.values.key(number)
        constant = self.values.constant(number)
        if constant is not None:
            return [(constant, ())] if constant else []
        inner = self._inside(number)
        if inner is not None:
            return self._terms(inner[0], inner[1] or axis)
        if key[0] == "+":
            return [term for part in key[1:] if isinstance(part, int) for term in self._terms(part, axis)]
        if key[0] == "*":
            found: list[tuple[int, tuple[Index, ...]]] = [(1, ())]
            for part in key[1:]:
                assert isinstance(part, int)
                found = [(a * b, (*one, *more)) for a, one in found for b, more in self._terms(part, axis)]
            return found
        return [(1, ((number, axis if self.lanes((number, axis)) is not None else ""),))]
