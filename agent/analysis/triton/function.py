"""Reads one `@triton.jit` function: its parameters, calls of `tl`, loops and assignments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import libcst as cst
import libcst.matchers as m

from ..source import code, names
from ..template import matches
from ..tree import calls_in, contains, find_all, plain_names, target_of

SPLIT_DOT = "split_dot"
"""The function of a file that computes a product with a precision of a choice; the rule split-precision writes it."""


def is_range(loop: cst.For) -> bool:
    """Return whether a loop counts in one variable, and nothing follows its last step."""
    counts = matches(loop.iter, "range(q__)", "tl.range(q__)")
    return counts and isinstance(loop.target, cst.Name) and loop.orelse is None


@dataclass(frozen=True, eq=False)
class Function:
    """A function under `@triton.jit`."""

    node: cst.FunctionDef

    @property
    def name(self) -> str:
        """The function's name."""
        return self.node.name.value

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """All parameters, in order."""
        return tuple(parameter.name.value for parameter in self.node.params.params)

    @cached_property
    def constexprs(self) -> frozenset[str]:
        """Parameters annotated as `tl.constexpr`."""
        given = {item.name.value: item.annotation for item in self.node.params.params if item.annotation}
        return frozenset(
            name for name, annotation in given.items() if code(annotation.annotation) in ("tl.constexpr", "constexpr")
        )

    def calls(self, *functions: str) -> list[cst.Call]:
        """Return the calls of these functions of `tl`, in the order of the text."""
        return calls_in(self.node, *(f"tl.{function}" for function in functions))

    @cached_property
    def loads(self) -> Sequence[cst.Call]:
        """The calls of `tl.load`."""
        return self.calls("load")

    @cached_property
    def stores(self) -> Sequence[cst.Call]:
        """The calls of `tl.store`."""
        return self.calls("store")

    @cached_property
    def has_products(self) -> bool:
        """Whether it has matrix products."""
        return bool(calls_in(self.node, ".dot", SPLIT_DOT))

    @cached_property
    def assignments(self) -> Mapping[str, Sequence[cst.BaseExpression]]:
        """The values that each name gets by `a = value` and `a : tl.constexpr = value`."""
        found: dict[str, list[cst.BaseExpression]] = {}
        for node in find_all(self.node, m.Assign() | m.AnnAssign()):
            for assigned in node.targets if isinstance(node, cst.Assign) else [node]:
                target, value = target_of(assigned), getattr(node, "value", None)
                if isinstance(target, cst.Name) and value is not None:
                    found.setdefault(target.value, []).append(value)
        return found

    @cached_property
    def updates(self) -> Mapping[str, Sequence[cst.AugAssign]]:
        """The `a += value` of each name."""
        found: dict[str, list[cst.AugAssign]] = {}
        for node in find_all(self.node, cst.AugAssign, m.AugAssign(target=m.Name())):
            found.setdefault(code(node.target), []).append(node)
        return found

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The names that stand for a whole number that is not negative."""
        texts = {name: self.literal(cst.Name(name)) or "" for name in self.assignments}
        return {name: int(text) for name, text in texts.items() if text.isdigit()}

    def is_fixed(self, name: str) -> bool:
        """Return whether a name is a parameter that the function does not change."""
        return name in self.parameters and name not in self.assignments and name not in self.updates

    def value_of(self, name: str) -> cst.BaseExpression | None:
        """Return the value of a name that is assigned once, is not a parameter, and does not depend on itself."""
        return self._values.get(name)

    @cached_property
    def _values(self) -> Mapping[str, cst.BaseExpression]:
        once = {name: values[0] for name, values in self.assignments.items() if len(values) == 1}
        found = {
            name: value for name, value in once.items() if name not in self.parameters and name not in self.updates
        }
        parts = {name: names(value) & found.keys() for name, value in found.items()}

        def reached(name: str) -> set[str]:
            seen, left = set[str](), list(parts[name])
            while left:
                parameter = left.pop()
                if parameter not in seen:
                    seen.add(parameter)
                    left += parts[parameter]
            return seen

        return {name: value for name, value in found.items() if name not in reached(name)}

    def base(self, pointer: cst.BaseExpression) -> str | None:
        """Return the parameter that a pointer's sum begins with: x_ptr of `x_ptr + rows * K + columns`."""
        return self._base(pointer, {})

    def _base(self, node: cst.BaseExpression, known: dict[str, str | None]) -> str | None:
        if isinstance(node, cst.Subscript):
            return self._base(node.value, known)
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
            return self._base(node.left, known) or self._base(node.right, known)
        if not isinstance(node, cst.Name) or node.value in known:
            return known.get(node.value) if isinstance(node, cst.Name) else None
        known[node.value] = None  # of a name that is made of itself, until it is known
        # A name plus an offset moves a pointer within its tensor.
        sums = [(value, addends(value)) for value in self.assignments.get(node.value, ())]
        found = {self._base(term, known) for term, (first, *more) in sums if not more or code(first) != node.value}
        if node.value in self.parameters:
            known[node.value] = node.value if found <= {None, node.value} else None
        else:
            known[node.value] = found.pop() if len(found) == 1 else None
        return known[node.value]

    def touches_once(self, parameter: str) -> bool:
        """Return whether one load or store alone begins at a parameter."""
        pointers = [argument(call, "pointer", 0) for call in (*self.loads, *self.stores)]
        return [self.base(pointer) for pointer in pointers if pointer is not None].count(parameter) == 1

    def uses(self, name: str) -> Sequence[cst.Name]:
        """Return the uses of a name in the body, including assignments, but not b in `a.b` and `f(b=...)`."""
        return self._uses.get(name, ())

    @cached_property
    def _uses(self) -> Mapping[str, Sequence[cst.Name]]:
        found: dict[str, list[cst.Name]] = {}
        for node in plain_names(self.node.body):
            found.setdefault(node.value, []).append(node)
        return found

    def literal(self, node: cst.BaseExpression | None) -> str | None:
        """Return a number, text or truth value as text, through a name that stands for it: 'False', '8192', '"ieee"'.

        None for anything else.
        """
        if isinstance(node, cst.Name) and node.value not in ("True", "False", "None"):
            node = self.value_of(node.value)
        plain = isinstance(node, cst.Integer | cst.Float | cst.SimpleString | cst.Name)
        return code(node) if node is not None and plain else None

    @cached_property
    def loops(self) -> Sequence[cst.For]:
        """All loops, outer ones first."""
        return find_all(self.node, cst.For)

    def loops_around(self, node: cst.CSTNode) -> list[cst.For]:
        """Return the loops around a node, outer ones first."""
        return [loop for loop in self.loops if loop is not node and contains(loop, node)]

    def statement_of(self, node: cst.CSTNode) -> cst.SimpleStatementLine | None:
        """Return the simple statement that contains a node."""
        return next((line for line in find_all(self.node, cst.SimpleStatementLine) if contains(line, node)), None)

    def place_of(self, node: cst.CSTNode) -> int | None:
        """Return the position of a statement in the function's own body; None if it is in another block."""
        return next((i for i, statement in enumerate(self.node.body.body) if statement is node), None)


def addends(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return the terms of a sum."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
        return [*addends(node.left), *addends(node.right)]
    return [node]


def factors(node: cst.BaseExpression) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """Return both sides of a product; None for another expression."""
    is_product = isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply)
    return (node.left, node.right) if is_product and isinstance(node, cst.BinaryOperation) else None


def joined_parts(mask: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield the conditions that a mask joins with `&`."""
    if isinstance(mask, cst.BinaryOperation) and isinstance(mask.operator, cst.BitAnd):
        yield from joined_parts(mask.left)
        yield from joined_parts(mask.right)
    else:
        yield mask


def argument(call: cst.Call, keyword: str, position: int | None = None) -> cst.BaseExpression | None:
    """Return an argument of a call by its keyword, or at its position among the plain ones."""
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == keyword:
            return arg.value
    plain = [arg.value for arg in call.args if arg.keyword is None]
    return plain[position] if position is not None and position < len(plain) else None


def further_arguments(call: cst.Call) -> str:
    """Return the arguments after the first as text, each after a comma."""
    return "".join(f", {f'{arg.keyword.value}=' if arg.keyword else ''}{code(arg.value)}" for arg in call.args[1:])
