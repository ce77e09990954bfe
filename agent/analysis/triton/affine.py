"""Reads an address as a sum of indices, each times its stride: as written (`strides_of`), and by value (`Affine`).

As written, indices are texts that a rule can write again, through the names that pointers and products have. By value,
they are numbers of `ValueNumbers`, whatever names they went through.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import libcst as cst

from ..source import code, operand
from .function import Function, addends, factors
from .values import Part, ValueNumbers

COLUMNS, ROWS = "[None, :]", "[:, None]"
"""The position of an index along one axis of a tile."""
_AXES = {ROWS: "row", COLUMNS: "column"}


@dataclass(frozen=True)
class Stride:
    """A number times sizes that are parameters."""

    number: int
    sizes: tuple[str, ...]

    @property
    def order(self) -> tuple[int, int]:
        """Sorts the strides of one tensor: an outer axis has more sizes in its stride, or a larger number."""
        return len(self.sizes), self.number

    @property
    def text(self) -> str:
        """The stride as an expression."""
        return self.on_host({})

    def on_host(self, arguments: Mapping[str, str]) -> str:
        """Return the stride as an expression of the host, with a launch's arguments for the sizes."""
        sizes = [operand(arguments.get(name, name)) for name in self.sizes]
        return " * ".join([*sizes, *([str(self.number)] if self.number != 1 or not sizes else [])])

    def times(self, other: Stride) -> Stride:
        """Return the product of both."""
        return Stride(self.number * other.number, tuple(sorted((*self.sizes, *other.sizes))))

    def is_multiple_of(self, other: Stride) -> bool:
        """Return whether the stride is another one times something, whatever the sizes are."""
        return self.number % other.number == 0 and not Counter(other.sizes) - Counter(self.sizes)


Term = tuple[int, tuple[str, ...]]


def strides_of(function: Function, pointer: cst.BaseExpression) -> Mapping[str, Stride] | None:
    """Return the stride of each index in a pointer's sum, by the index as text, such as `rows[:, None]`.

    Numbers, parameters that nothing assigns, and names of numbers are part of strides; every other factor is an
    index. None where a term has no index or two, or where two terms have the same index.
    """
    base = function.base(pointer)
    return None if base is None else _strides(function, pointer, base)


def strides_added(function: Function, base: str) -> list[Stride] | None:
    """Return the strides of all indices in `base += ...`; None if one has another form."""
    found: list[Stride] = []
    for update in function.updates.get(base, ()):
        strides = _strides(function, update.value, None) if isinstance(update.operator, cst.AddAssign) else None
        if strides is None:
            return None
        found += strides.values()
    return found


def size_of(function: Function, node: cst.BaseExpression) -> Stride | None:
    """Return an expression as a number times sizes; None if it is anything else."""
    terms = _terms(function, node, None, "")
    if len(terms) != 1 or not all(function.is_fixed(item) for item in terms[0][1]):
        return None
    return Stride(terms[0][0], tuple(sorted(terms[0][1])))


def _strides(function: Function, node: cst.BaseExpression, base: str | None) -> dict[str, Stride] | None:
    found: dict[str, Stride] = {}
    bases = 0
    for number, parts in _terms(function, node, base, ""):
        indices = [factor for factor in parts if not function.is_fixed(factor)]
        if base is not None and parts == (base,) and number == 1:
            bases += 1
        elif base in parts or len(indices) != 1 or indices[0] in found:
            return None
        else:
            sizes = tuple(sorted(factor for factor in parts if factor != indices[0]))
            found[indices[0]] = Stride(number, sizes)
    return found if bases == (base is not None) else None


def _terms(function: Function, node: cst.BaseExpression, base: str | None, axis: str) -> list[Term]:
    if isinstance(node, cst.Subscript):
        added = "[" + ", ".join(code(item.slice) for item in node.slice) + "]"
        return _terms(function, node.value, base, added) if added in _AXES and not axis else [(1, (code(node),))]
    if len(parts := addends(node)) > 1:
        return [term for part in parts for term in _terms(function, part, base, axis)]
    if (sides := factors(node)) is not None:
        left, right = (_terms(function, side, base, axis) for side in sides)
        return [(a * b, tuple(sorted((*factors, *more)))) for a, factors in left for b, more in right if a * b]
    number = _number(function, node)
    if number is not None:
        return [(number, ())] if number else []
    if isinstance(node, cst.Name):
        value = function.value_of(node.value)
        if value is not None and (_is_product(function, value) or (base and function.base(node) == base)):
            return _terms(function, value, base, axis)
        return [(1, (node.value if function.is_fixed(node.value) else node.value + axis,))]
    return [(1, (f"({code(node)}){axis}",))]


def _number(function: Function, node: cst.BaseExpression) -> int | None:
    """Return a whole number, through names that stand for it."""
    while isinstance(node, cst.Name) and (value := function.value_of(node.value)) is not None:
        node = value
    return node.evaluated_value if isinstance(node, cst.Integer) else None


def _is_product(function: Function, node: cst.BaseExpression) -> bool:
    if (sides := factors(node)) is not None:
        return all(_is_product(function, side) for side in sides)
    return isinstance(node, cst.Integer) or (isinstance(node, cst.Name) and function.is_fixed(node.value))


Index = tuple[int, str]
"""A value and, for `tl.arange`, its axis of the tile: 'row', 'column' or ''."""


@dataclass(frozen=True)
class Affine:
    """Reads values of one function, whose sizes are parameters that it does not change."""

    values: ValueNumbers
    sizes: Collection[str]

    def strides(self, number: int) -> Mapping[Index, Stride] | None:
        """Return the stride of each index in a sum; None if a term has two indices, or two terms share one.

        A term without an index has the index of the number one.
        """
        found: dict[Index, Stride] = {}
        for count, parts in self._terms(number, ""):
            sizes = [str(self.values.key(part)[1]) for part, _ in parts if self._is_size(part)]
            indices = [factor for factor in parts if not self._is_size(factor[0])]
            index = indices[0] if indices else (self.values.of("1"), "")
            if len(indices) > 1 or index in found:
                return None
            found[index] = Stride(count, tuple(sorted(sizes)))
        return found

    def size(self, number: int) -> Stride | None:
        """Return a value as a product of sizes; None for any other."""
        strides = self.strides(number)
        unit = (self.values.of("1"), "")
        return strides[unit] if strides is not None and set(strides) == {unit} else None

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
        return key[1], tuple(item for item in key[2] if isinstance(item, int))

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
        match self.values.key(condition):
            case ("<", int(left), int(right)):
                return left, right
        return None

    def _inside(self, number: int) -> tuple[int, str] | None:
        """Return the operand of a change of shape or type, and the axis that it adds."""
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
                found = [(a * b, (*factors, *more)) for a, factors in found for b, more in self._terms(part, axis)]
            return found
        return [(1, ((number, axis if self.lanes((number, axis)) is not None else ""),))]
