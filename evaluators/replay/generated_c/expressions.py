"""Expressions of generated C, written anew: every access is proven to stay in its array, or checked when it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pycparser import c_ast

from ..values import UnplannableCallError
from . import arithmetic
from .accesses import MemoryPlace, place_of
from .conversions import converted
from .literals import literal
from .names import Variable, VariableScopes
from .types import BOOL, DOUBLE, FLOAT, INT32, INT64, CType, Interval, common, promoted, type_named
from .values import State, Sum, Value, term

MAX_WORK = 100_000
"""Nodes of the syntax tree, each as often as it is looked at, and what is known then: generated code has thousands."""
_NAMES = """
    sqrt exp exp2 expm1 exp10 log log2 log10 log1p pow sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh
    atanh erf erfc fabs floor ceil round trunc rint nearbyint fmax fmin fma fmod copysign ldexp cbrt hypot abs
    isnan isinf isfinite lrint lround
"""
_MATHEMATICS = frozenset(_NAMES.split())
FUNCTIONS = _MATHEMATICS | {f"{name}f" for name in _MATHEMATICS}
_COMPARED = {"<": ("<", False), ">": ("<", True), "<=": ("<=", False), ">=": ("<=", True), "==": ("==", False)}
_NEGATED = {"<": ">=", ">": "<=", "<=": ">", ">=": "<", "!=": "==", "==": "!="}


class Expressions:
    """Writes expressions; `state` is what is known where the next one stands."""

    def __init__(self) -> None:
        self.scopes = VariableScopes()
        self.state = State()
        self._work = 0

    def value(self, node: c_ast.Node) -> Value:
        """Return an expression's value. Raises `UnplannableCallError` for anything that could not be followed."""
        self._work += 1 + len(self.state.facts) // 4
        if self._work > MAX_WORK:
            raise UnplannableCallError("more than can be checked")
        write = self._WRITERS.get(type(node))
        if write is None:
            raise UnplannableCallError(f"'{_described(node)}'")
        return write(self, node)

    def condition(self, node: c_ast.Node) -> Value:
        """Return the value of a condition as a truth value."""
        return converted(self.value(node), BOOL)

    def place(self, node: c_ast.Node) -> MemoryPlace:
        """Return the place in memory that an expression names."""
        return place_of(node, self.scopes, self.value)

    def assume(self, node: c_ast.Node, truth: bool) -> None:
        """From here on, a condition is known to be true or false."""
        if isinstance(node, c_ast.UnaryOp) and node.op == "!":
            self.assume(node.expr, not truth)
        elif isinstance(node, c_ast.BinaryOp) and node.op == ("&&" if truth else "||"):
            self.assume(node.left, truth)
            self.assume(node.right, truth)
        elif isinstance(node, c_ast.BinaryOp) and node.op in _NEGATED:
            operator = node.op if truth else _NEGATED[node.op]
            self._compare(operator, self.value(node.left), self.value(node.right))

    def _compare(self, operator: str, left: Value, right: Value) -> None:
        if left.total is None or right.total is None or operator not in _COMPARED:
            return
        within = common(left.type, right.type).interval
        if not (left.interval.within(within) and right.interval.within(within)):
            return  # -1 is more than 1 where one of them has no sign
        relation, swapped = _COMPARED[operator]
        less, more = (right.total, left.total) if swapped else (left.total, right.total)
        self.state.assume_at_most(less - more, -1 if relation == "<" else 0)
        if relation == "==":
            self.state.assume_at_most(more - less, 0)

    def known(self, text: str, kind: CType, total: Sum, interval: Interval) -> Value:
        """Return an integer that proofs may rest on, given the sum that it is."""
        found = self.state.tightened(total, interval)
        return Value(text, kind, Sum(constant=found.low) if found.low == found.high else total, found)

    def _constant(self, node: c_ast.Constant) -> Value:
        return literal(node.type, node.value)

    def _name(self, node: c_ast.ID) -> Value:
        if node.name in ("true", "false"):
            return converted(_number(int(node.name == "true")), BOOL)
        if node.name in ("INFINITY", "NAN"):
            return Value(node.name, FLOAT)
        variable = self.scopes.find(node.name)
        if variable.kind != "value":
            raise UnplannableCallError(f"the address in '{node.name}' as a value")
        return self.variable(variable)

    def variable(self, variable: Variable) -> Value:
        """Return what a variable holds here."""
        interval = self.state.intervals.get(variable.name)
        if interval is None:
            return Value(variable.name, variable.type)
        own = term(variable.name, interval)
        return self.known(variable.name, variable.type, own, interval)

    def _read(self, node: c_ast.Node) -> Value:
        place = self.place(node)
        return Value(f"({place.text} != 0)" if place.type is BOOL else place.text, place.type)

    def _unary(self, node: c_ast.UnaryOp) -> Value:
        if node.op == "*":
            return self._read(node)
        if node.op == "!":
            inner = self.condition(node.expr)
            return self._truth(f"(!{inner.text})", inner)
        if node.op not in ("-", "+", "~"):
            raise UnplannableCallError(f"'{node.op}' within an expression")
        inner = self.value(node.expr)
        if not inner.type.whole:
            if inner.type.family == "vector" or node.op == "~":
                raise UnplannableCallError(f"'{node.op}' of {inner.type.name}")
            return Value(f"({node.op}{inner.text})", inner.type)
        inner = converted(inner, promoted(inner.type))
        if node.op == "+":
            return inner
        return arithmetic.binary(self, "-", converted(_number(0 if node.op == "-" else -1), inner.type), inner)

    def _truth(self, text: str, *of: Value) -> Value:
        """Return a truth value that was made from others."""
        return arithmetic.result(self, text, BOOL, BOOL.interval, *of)

    def _binary(self, node: c_ast.BinaryOp) -> Value:
        if node.op in ("&&", "||"):
            left = self.condition(node.left)
            right = self._under(node.left, node.op == "&&", lambda: self.condition(node.right))
            return self._truth(f"({left.text} {node.op} {right.text})", left, right)
        left, right = self.value(node.left), self.value(node.right)
        if node.op in _NEGATED:
            common(left.type, right.type)
            return self._truth(f"({left.text} {node.op} {right.text})", left, right)
        return arithmetic.binary(self, node.op, left, right)

    def _under(self, condition: c_ast.Node, truth: bool, then: Callable[[], Value]) -> Value:
        """Return what is only evaluated where a condition is so."""
        before = self.state
        self.state = before.copy()
        try:
            self.assume(condition, truth)
            return then()
        finally:
            self.state = before

    def _choice(self, node: c_ast.TernaryOp) -> Value:
        condition = self.condition(node.cond)
        first = self._under(node.cond, True, lambda: self.value(node.iftrue))
        second = self._under(node.cond, False, lambda: self.value(node.iffalse))
        if first.type is not second.type:
            kind = common(first.type, second.type)
            first, second = converted(first, kind), converted(second, kind)
        elif first.type.whole:
            first, second = (converted(each, promoted(each.type)) for each in (first, second))
        text = f"({condition.text} ? {first.text} : {second.text})"
        return arithmetic.result(self, text, first.type, first.interval | second.interval, condition, first, second)

    def _cast(self, node: c_ast.Cast) -> Value:
        kind = plain_type(node.to_type.type)
        inner = node.expr
        if isinstance(inner, c_ast.ExprList):  # TileLang writes the element of a vector as often as it has elements
            if kind.element is None:
                raise UnplannableCallError("a list of values")
            inner = inner.exprs[-1]
        return converted(self.value(inner), kind, explicit=True)

    def _call(self, node: c_ast.FuncCall) -> Value:
        if not isinstance(node.name, c_ast.ID):
            raise UnplannableCallError("a call through a pointer")
        name = node.name.name
        if name not in FUNCTIONS:
            raise UnplannableCallError(f"calls of '{name}'")
        arguments = [self.value(item) for item in (node.args.exprs if node.args else ())]
        if any(argument.type.family == "vector" for argument in arguments):
            raise UnplannableCallError(f"'{name}' of a vector")
        base = name if name in _MATHEMATICS else name.removesuffix("f")
        if base == "ldexp" and len(arguments) == 2:
            arguments[1] = converted(arguments[1], INT32)
        if base == "abs" and any(argument.type.whole for argument in arguments):
            raise UnplannableCallError("'abs' of an integer")
        return Value(f"{name}({', '.join(argument.text for argument in arguments)})", _result(name, base, arguments))

    _WRITERS = {
        c_ast.Constant: _constant,
        c_ast.ID: _name,
        c_ast.ArrayRef: _read,
        c_ast.UnaryOp: _unary,
        c_ast.BinaryOp: _binary,
        c_ast.TernaryOp: _choice,
        c_ast.Cast: _cast,
        c_ast.FuncCall: _call,
    }  # fmt: skip


def _number(number: int) -> Value:
    return Value(str(number), INT32, Sum(constant=number), Interval(number, number))


def _result(name: str, base: str, arguments: Sequence[Value]) -> CType:
    if base in ("isnan", "isinf", "isfinite"):
        return BOOL
    if base in ("lrint", "lround"):
        return INT64
    if name != base:
        return FLOAT
    kinds = [DOUBLE if argument.type.whole else argument.type for argument in arguments]
    return max(kinds, key=lambda kind: kind.size, default=DOUBLE)


def plain_type(node: c_ast.Node) -> CType:
    """Return the type that a declaration or a cast names. Raises `UnplannableCallError` for a pointer or an array."""
    if not isinstance(node, c_ast.TypeDecl) or not isinstance(node.type, c_ast.IdentifierType):
        raise UnplannableCallError("a type that is made of others")
    return type_named(node.type.names)


def _described(node: c_ast.Node) -> str:
    return node.op if isinstance(node, c_ast.Assignment) else type(node).__name__
