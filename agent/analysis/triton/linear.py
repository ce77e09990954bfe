"""Reads an address as a sum of indices, each times its stride."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import libcst as cst

from ..source import code, operand
from .function import Function

COLUMNS, ROWS = "[None, :]", "[:, None]"
"""How an index lies along one axis of a tile."""
_NEW_AXIS = (COLUMNS, ROWS)


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
    """Return the strides of all indices in `base += ...`; None where one is of another form."""
    found: list[Stride] = []
    for update in function.updates.get(base, ()):
        strides = _strides(function, update.value, None) if isinstance(update.operator, cst.AddAssign) else None
        if strides is None:
            return None
        found += strides.values()
    return found


def size_of(function: Function, node: cst.BaseExpression) -> Stride | None:
    """Return an expression as a number times sizes; None where it is anything else."""
    terms = _terms(function, node, None, "")
    if len(terms) != 1 or not all(_is_size(function, one) for one in terms[0][1]):
        return None
    return Stride(terms[0][0], tuple(sorted(terms[0][1])))


def _strides(function: Function, node: cst.BaseExpression, base: str | None) -> dict[str, Stride] | None:
    found: dict[str, Stride] = {}
    bases = 0
    for number, factors in _terms(function, node, base, ""):
        indices = [one for one in factors if not _is_size(function, one)]
        if base is not None and factors == (base,) and number == 1:
            bases += 1
        elif base in factors or len(indices) != 1 or indices[0] in found:
            return None
        else:
            sizes = tuple(sorted(one for one in factors if one != indices[0]))
            found[indices[0]] = Stride(number, sizes)
    return found if bases == (base is not None) else None


def _terms(function: Function, node: cst.BaseExpression, base: str | None, axis: str) -> list[Term]:
    if isinstance(node, cst.Subscript):
        added = "[" + ", ".join(code(one.slice) for one in node.slice) + "]"
        return _terms(function, node.value, base, added) if added in _NEW_AXIS and not axis else [(1, (code(node),))]
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
        return [*_terms(function, node.left, base, axis), *_terms(function, node.right, base, axis)]
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
        right = _terms(function, node.right, base, axis)
        left = _terms(function, node.left, base, axis)
        return [(a * b, tuple(sorted((*one, *other)))) for a, one in left for b, other in right if a * b]
    number = _number(function, node)
    if number is not None:
        return [(number, ())] if number else []
    if isinstance(node, cst.Name):
        value = function.value_of(node.value)
        if value is not None and (_is_product(function, value) or (base and function.base(node) == base)):
            return _terms(function, value, base, axis)
        return [(1, (node.value if _is_size(function, node.value) else node.value + axis,))]
    return [(1, (f"({code(node)}){axis}",))]


def _number(function: Function, node: cst.BaseExpression) -> int | None:
    """Return a whole number, through names that stand for it."""
    while isinstance(node, cst.Name):
        value = function.value_of(node.value)
        if value is None:
            return None
        node = value
    return node.evaluated_value if isinstance(node, cst.Integer) else None


def _is_product(function: Function, node: cst.BaseExpression) -> bool:
    """Return whether an expression is a product of sizes and numbers."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
        return _is_product(function, node.left) and _is_product(function, node.right)
    return isinstance(node, cst.Integer) or (isinstance(node, cst.Name) and _is_size(function, node.value))


def _is_size(function: Function, name: str) -> bool:
    changed = name in function.assignments or name in function.updates
    return name in function.parameters and not changed
