"""Reads one `@triton.jit` function: its parameters, calls of `tl`, loops and assignments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import libcst as cst
import libcst.matchers as m

from ..search import contains, find_all
from ..source import code, names

RANGE = m.Name("range") | m.Attribute(m.Name("tl"), m.Name("range"))
"""What a loop may count with."""


@dataclass(frozen=True, eq=False)
class Function:
    """A function under `@triton.jit`."""

    node: cst.FunctionDef

    @property
    def name(self) -> str:
        """Its name."""
        return self.node.name.value

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """All parameters, in order."""
        return tuple(parameter.name.value for parameter in self.node.params.params)

    @cached_property
    def constexprs(self) -> frozenset[str]:
        """Those annotated as `tl.constexpr`."""
        constexpr = m.Annotation(m.Attribute(m.Name("tl"), m.Name("constexpr")) | m.Name("constexpr"))
        params = self.node.params.params
        return frozenset(
            parameter.name.value
            for parameter in params
            if parameter.annotation and m.matches(parameter.annotation, constexpr)
        )

    def calls(self, *functions: str) -> list[cst.Call]:
        """Return the calls of these functions of `tl`, in the order of the text."""
        return calls_in(self.node, *functions)

    @cached_property
    def loads(self) -> Sequence[cst.Call]:
        """The calls of `tl.load`."""
        return self.calls("load")

    @cached_property
    def stores(self) -> Sequence[cst.Call]:
        """The calls of `tl.store`."""
        return self.calls("store")

    @cached_property
    def assignments(self) -> Mapping[str, Sequence[cst.BaseExpression]]:
        """The values that each name gets by `a = value` and `a : tl.constexpr = value`."""
        found: dict[str, list[cst.BaseExpression]] = {}
        for node in find_all(self.node, m.Assign() | m.AnnAssign()):
            assert isinstance(node, cst.Assign | cst.AnnAssign)
            targets = [item.target for item in node.targets] if isinstance(node, cst.Assign) else [node.target]
            for target in targets:
                if isinstance(target, cst.Name) and node.value is not None:
                    found.setdefault(target.value, []).append(node.value)
        return found

    @cached_property
    def updates(self) -> Mapping[str, Sequence[cst.AugAssign]]:
        """The `a += value` of each name."""
        found: dict[str, list[cst.AugAssign]] = {}
        for node in find_all(self.node, m.AugAssign(target=m.Name())):
            assert isinstance(node, cst.AugAssign)
            found.setdefault(code(node.target), []).append(node)
        return found

    def value_of(self, name: str) -> cst.BaseExpression | None:
        """Return what a name is, if it is assigned once, is no parameter, and is not made of itself."""
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
                one = left.pop()
                if one not in seen:
                    seen.add(one)
                    left += parts[one]
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
        values = [item for item in self.assignments.get(node.value, ()) if not _adds_to(item, node.value)]
        found = {self._base(value, known) for value in values}
        if node.value in self.parameters:
            known[node.value] = node.value if found <= {None, node.value} else None
        else:
            known[node.value] = found.pop() if len(found) == 1 else None
        return known[node.value]

    def touches_once(self, parameter: str) -> bool:
        """Return whether one load or store alone begins at a parameter."""
        pointers = [argument(call, "pointer", 0) for call in (*self.loads, *self.stores)]
        return [self.base(pointer) for pointer in pointers if pointer is not None].count(parameter) == 1

    def uses(self, name: str) -> list[cst.Name]:
        """Return where a name stands in the body, its assignments too; of `a.b` and `f(b=...)`, not b."""
        found: list[cst.Name] = []

        class Visitor(cst.CSTVisitor):
            def visit_Name(self, node: cst.Name) -> None:
                if node.value == name:
                    found.append(node)

            def visit_Attribute_attr(self, node: cst.Attribute) -> None:
                attributes.append(node.attr)

            def visit_Arg_keyword(self, node: cst.Arg) -> None:
                attributes.extend([node.keyword] if node.keyword else [])

        attributes: list[cst.Name] = []
        self.node.body.visit(Visitor())
        return [node for node in found if not any(node is attribute for attribute in attributes)]

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
        return [cst.ensure_type(match, cst.For) for match in find_all(self.node, m.For())]

    def loops_around(self, node: cst.CSTNode) -> list[cst.For]:
        """Return the loops around a node, outer ones first."""
        return [loop for loop in self.loops if loop is not node and contains(loop, node)]

    def statement_of(self, node: cst.CSTNode) -> cst.SimpleStatementLine | None:
        """Return the simple statement that a node stands in."""
        return next((line for line in self._lines if contains(line, node)), None)

    @cached_property
    def _lines(self) -> Sequence[cst.SimpleStatementLine]:
        lines = find_all(self.node, m.SimpleStatementLine())
        return [cst.ensure_type(line, cst.SimpleStatementLine) for line in lines]


def _adds_to(value: cst.BaseExpression, name: str) -> bool:
    """Return whether a value is a name plus something, which moves a pointer within what it points to."""
    if not isinstance(value, cst.BinaryOperation) or not isinstance(value.operator, cst.Add):
        return False
    return _adds_to(value.left, name) or (isinstance(value.left, cst.Name) and value.left.value == name)


def calls_in(node: cst.CSTNode, *functions: str) -> list[cst.Call]:
    """Return the calls of these functions of `tl` inside of a node, in the order of the text."""
    function = m.Attribute(m.Name("tl"), m.OneOf(*(m.Name(item) for item in functions)))
    return [cst.ensure_type(match, cst.Call) for match in find_all(node, m.Call(func=function))]


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
