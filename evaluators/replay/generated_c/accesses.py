"""Accesses to memory: the forms in which TileLang writes them, and the check of where each of them points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pycparser import c_ast

from ..values import UnplannableCallError
from .conversions import converted
from .names import Variable, VariableScopes
from .types import BOOL, INT32, INT64, CType, Interval, type_named
from .values import Sum, Value

Evaluate = Callable[[c_ast.Node], Value]


@dataclass(frozen=True)
class MemoryPlace:
    """Where something is read from memory, or written to."""

    text: str
    type: CType
    writable: bool = True


@dataclass(frozen=True)
class _Base:
    """An array or an argument, as the elements that an index counts."""

    variable: Variable
    element: CType

    @property
    def text(self) -> str:
        if self.element is self.variable.type:
            return self.variable.name
        return f"(({self.element.stored}*){self.variable.name})"


def place_of(node: c_ast.Node, scopes: VariableScopes, evaluate: Evaluate) -> MemoryPlace:
    """Return the place of `a[i]`, `((T*)a)[i]`, `*(a + i)` and `*(T*)(a + i)`, or the bits of a variable,
    `*(T*)(&v)`. Raises `UnplannableCallError` for any other."""
    if isinstance(node, c_ast.ArrayRef):
        base, index = _base(node.name, scopes), evaluate(node.subscript)
        return _checked(base, index, base.element)
    if not isinstance(node, c_ast.UnaryOp) or node.op != "*":
        raise UnplannableCallError("an access of another form than TileLang's")
    inner, kind = node.expr, None
    if isinstance(inner, c_ast.Cast):
        kind = _pointed(inner)
        if isinstance(inner.expr, c_ast.UnaryOp) and inner.expr.op == "&":
            return _bits(kind, inner.expr.expr, scopes, evaluate)
        if not isinstance(inner.expr, c_ast.ID):
            inner = inner.expr
    index = Value("0", INT32, Sum(), Interval(0, 0))
    if isinstance(inner, c_ast.BinaryOp) and inner.op == "+":
        index, inner = evaluate(inner.right), inner.left
    base = _base(inner, scopes)
    return _checked(base, index, kind or base.element)


def _pointed(node: c_ast.Cast) -> CType:
    pointer = node.to_type.type
    if isinstance(pointer, c_ast.PtrDecl) and isinstance(pointer.type, c_ast.TypeDecl):
        named = pointer.type.type
        if isinstance(named, c_ast.IdentifierType):
            return type_named(named.names)
    raise UnplannableCallError("a conversion to an address")


def _base(node: c_ast.Node, scopes: VariableScopes) -> _Base:
    kind = None
    if isinstance(node, c_ast.Cast):
        kind, node = _pointed(node), node.expr
    if not isinstance(node, c_ast.ID):
        raise UnplannableCallError("an address that is computed")
    variable = scopes.find(node.name)
    if variable.kind == "value":
        raise UnplannableCallError(f"the value of '{node.name}' as an address")
    return _Base(variable, kind or variable.type)


def _bits(kind: CType, node: c_ast.Node, scopes: VariableScopes, evaluate: Evaluate) -> MemoryPlace:
    if not isinstance(node, c_ast.ID) or scopes.find(node.name).kind != "value":
        raise UnplannableCallError("the address of something else than a variable")
    value = evaluate(node)
    if BOOL in (kind, value.type) or kind.size != value.type.size:
        raise UnplannableCallError(f"the bits of {value.type.name} as {kind.name}")
    return MemoryPlace(f"held_bits<{kind.name}>({value.text})", kind, writable=False)


def _checked(base: _Base, index: Value, kind: CType) -> MemoryPlace:
    """Return an access to a `kind` that begins at an element, which it is checked to lie within the memory."""
    if not index.type.whole:
        raise UnplannableCallError(f"an index of the type {index.type.name}")
    if BOOL in (kind, base.element) and kind is not base.element:
        raise UnplannableCallError(f"{base.element.name} read as {kind.name}")
    room = base.variable.extent - kind.size
    count = room // base.element.size + 1 if room >= 0 else 0
    text = _held(index, count)
    if kind is base.element:
        return MemoryPlace(f"{base.text}[{text}]", kind)
    return MemoryPlace(f"(*({kind.name}*)({base.text} + {text}))", kind)


def _held(index: Value, count: int) -> str:
    """Return an index that is below `count`, or ends the process where that could not be proven."""
    if index.total is not None and index.interval.within(Interval(0, count - 1)):
        return index.text
    held = "held_at" if index.total is not None else "held_data_at"
    return f"{held}({converted(index, INT64).text}, {count}ul)"
