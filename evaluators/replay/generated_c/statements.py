"""Statements of generated C, written anew, and what is known after each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from pycparser import c_ast

from ..values import UnplannableCallError
from .conversions import converted
from .expressions import Expressions, plain_type
from .names import Variable
from .types import INT32, CType, Interval
from .values import State, Value

MAX_STACK = 4 << 20
"""Bytes of all arrays of a function. The threads that call it have 8 MiB."""
_STEP = {"++": "+", "p++": "+", "--": "-", "p--": "-"}
_ONE = c_ast.Constant("int", "1")


@dataclass(frozen=True)
class _Counted:
    """A variable that a loop counts up by a step, from somewhere in an interval."""

    variable: Variable
    begin: Interval
    step: int

    @property
    def rounds(self) -> Interval:
        """Its range in any iteration, without regard to the loop's condition."""
        return Interval(self.begin.low, self.variable.type.interval.high)

    def reached(self, state: State) -> Interval:
        """Return what is left of that under the condition, which only multiples of the step reach."""
        found, begin = state.intervals[self.variable.name], self.begin
        if begin.low < begin.high or found.high < begin.low:
            return found
        return Interval(found.low, begin.low + (found.high - begin.low) // self.step * self.step)


class Statements:
    """Writes the statements of a function."""

    def __init__(self) -> None:
        self.expressions = Expressions()
        self._stack = 0

    def write(self, node: c_ast.Node | None) -> str:
        """Return a statement. Raises `UnplannableCallError` for anything that could not be followed."""
        if node is None or isinstance(node, c_ast.EmptyStatement):
            return ";"
        write = self._WRITERS.get(type(node))
        if write is None:
            raise UnplannableCallError(f"'{type(node).__name__.lower()}'")
        return write(self, node)

    @property
    def _state(self) -> State:
        return self.expressions.state

    def _block(self, node: c_ast.Compound) -> str:
        with self.expressions.scopes.block():
            return "{\n" + "\n".join(self.write(item) for item in node.block_items or ()) + "\n}"

    def _declaration(self, node: c_ast.Decl) -> str:
        for word in (*node.storage, *node.funcspec, *node.align):
            raise UnplannableCallError(f"'{word}'")
        if node.bitsize is not None:
            raise UnplannableCallError("a field of bits")
        if isinstance(node.type, c_ast.ArrayDecl):
            return self._array(node)
        kind = plain_type(node.type)
        if node.init is None:  # an integer has a value from the beginning, so that there is something to know of it
            zero = c_ast.Constant("int", "0") if kind.whole else None
            value = self._converted(zero, kind) if zero else None
        else:
            value = self._converted(node.init, kind)
        variable = self.expressions.scopes.declare(node.name, kind)
        if value is None:
            return f"{kind.name} {variable.name};"
        self._set(variable, value)
        return f"{kind.name} {variable.name} = {value.text};"

    def _array(self, node: c_ast.Decl) -> str:
        kind, size = plain_type(node.type.type), node.type.dim
        if not isinstance(size, c_ast.Constant) or node.init is not None or node.type.dim_quals:
            raise UnplannableCallError(
                "an array whose length is not one number, or which is filled when it is declared"
            )
        count = self.expressions.value(size).interval.high
        self._stack += count * kind.size
        if count < 1 or self._stack > MAX_STACK:
            raise UnplannableCallError(f"{self._stack} bytes of arrays, or an array without elements")
        variable = self.expressions.scopes.declare(node.name, kind, "array", count * kind.size)
        return f"{kind.stored} {variable.name}[{count}];"

    def _converted(self, node: c_ast.Node, kind: CType) -> Value:
        return converted(self.expressions.value(node), kind)

    def _set(self, variable: Variable, value: Value) -> None:
        known = value.interval if value.total is not None and variable.type.whole else None
        self._state.set(variable.name, known)

    def _assignment(self, node: c_ast.Assignment) -> str:
        right = node.rvalue
        if node.op != "=":
            right = c_ast.BinaryOp(node.op.removesuffix("="), node.lvalue, right)
        return self._assigned(node.lvalue, right)

    def _assigned(self, left: c_ast.Node, right: c_ast.Node) -> str:
        if isinstance(left, c_ast.ID):
            variable = self.expressions.scopes.find(left.name)
            if variable.kind != "value":
                raise UnplannableCallError(f"another address in '{left.name}'")
            value = self._converted(right, variable.type)
            self._set(variable, value)
            return f"{variable.name} = {value.text};"
        place = self.expressions.place(left)
        if not place.writable:
            raise UnplannableCallError("a change of the bits of a variable")
        return f"{place.text} = {self._converted(right, place.type).text};"

    def _step(self, node: c_ast.UnaryOp) -> str:
        if node.op not in _STEP:
            raise UnplannableCallError(f"'{node.op}' as a statement")
        return self._assigned(node.expr, c_ast.BinaryOp(_STEP[node.op], node.expr, _ONE))

    def _if(self, node: c_ast.If) -> str:
        condition = self.expressions.condition(node.cond)
        before, ends = self._state, []
        texts = []
        for truth, branch in ((True, node.iftrue), (False, node.iffalse)):
            self.expressions.state = before.copy()
            self.expressions.assume(node.cond, truth)
            texts.append(self._body(branch))
            ends.append(self._state)
        self.expressions.state = State.joined(*ends)
        if ends[0].ended and ends[1].ended:
            self._state.ended = True
        if condition.total is None:  # what was computed follows from something that could be read twice
            self._forget(_changed(node.iftrue, node.iffalse))
        return f"if ({condition.text}) {texts[0]} else {texts[1]}"

    def _body(self, node: c_ast.Node | None) -> str:
        return self._block(node if isinstance(node, c_ast.Compound) else c_ast.Compound([node] if node else []))

    def _forget(self, names: set[str]) -> None:
        for name in names:
            variable = self.expressions.scopes.seen(name)
            if variable is not None and variable.kind == "value":
                self._state.set(variable.name, None)

    def _loop(self, parts: Sequence[c_ast.Node | None], write: Callable[[], str]) -> str:
        """Write a loop: at the beginning of each round, and after it, nothing is known of what it changes."""
        self._forget(_changed(*parts))
        after = self._state.copy()
        text = write()
        after.ended = False
        self.expressions.state = after
        return text

    def _while(self, node: c_ast.While) -> str:
        def write() -> str:
            condition = self.expressions.condition(node.cond)
            self.expressions.assume(node.cond, True)
            return f"while ({condition.text}) {self._body(node.stmt)}"

        return self._loop([node.cond, node.stmt], write)

    def _do(self, node: c_ast.DoWhile) -> str:
        def write() -> str:
            start = self._state.copy()
            body = self._body(node.stmt)
            self.expressions.state = start  # a `continue` may have come here from anywhere
            return f"do {body} while ({self.expressions.condition(node.cond).text});"

        return self._loop([node.cond, node.stmt], write)

    def _for(self, node: c_ast.For) -> str:
        with self.expressions.scopes.block():
            first = node.init
            if isinstance(first, c_ast.DeclList):
                if len(first.decls) != 1:
                    raise UnplannableCallError("a loop over several variables")
                first = first.decls[0]
            begin = self.write(first)
            counted = self._counted(node, first)

            def write() -> str:
                if counted is not None:
                    self._state.set(counted.variable.name, counted.rounds)
                condition = self.expressions.condition(node.cond) if node.cond else None
                if node.cond:
                    self.expressions.assume(node.cond, True)
                if counted is not None:
                    self._state.intervals[counted.variable.name] = counted.reached(self._state)
                inside = self._state.copy()
                body = self._body(node.stmt)
                self.expressions.state = inside
                self._forget(_changed(node.stmt))
                then = self.write(node.next).removesuffix(";")
                return f"for ({begin} {condition.text if condition else ''}; {then}) {body}"

            return self._loop([node.cond, node.next, node.stmt], write)

    def _counted(self, node: c_ast.For, first: c_ast.Node | None) -> _Counted | None:
        """Return the variable that a loop counts up.

        It is never less than where it began, since no step leaves its type; None where that cannot be shown.
        """
        step, name = _step_of(node.next)
        if name is None or not isinstance(first, c_ast.Decl) or first.name != name:
            return None
        if node.cond is None or name in _changed(node.stmt):
            return None
        variable = self.expressions.scopes.find(name)
        begin = self._state.intervals.get(variable.name)
        if begin is None or not variable.type.whole:
            return None
        before = self._state.copy()
        self._forget(_changed(node.cond, node.next, node.stmt))
        counted = _Counted(variable, begin, step)
        self._state.set(variable.name, counted.rounds)
        self.expressions.assume(node.cond, True)
        last = self._state.intervals[variable.name].high
        self.expressions.state = before
        return counted if last + step <= variable.type.interval.high else None

    def _return(self, node: c_ast.Return) -> str:
        if node.expr is None:
            raise UnplannableCallError("a function that returns nothing")
        text = self._converted(node.expr, INT32).text
        self._state.ended = True
        return f"return {text};"

    def _call(self, node: c_ast.FuncCall) -> str:
        return f"(void){self.expressions.value(node).text};"

    def _leave(self, node: c_ast.Break | c_ast.Continue) -> str:
        self._state.ended = True
        return f"{type(node).__name__.lower()};"

    _WRITERS = {
        c_ast.Compound: _block,
        c_ast.Decl: _declaration,
        c_ast.Assignment: _assignment,
        c_ast.UnaryOp: _step,
        c_ast.If: _if,
        c_ast.For: _for,
        c_ast.While: _while,
        c_ast.DoWhile: _do,
        c_ast.FuncCall: _call,
        c_ast.Return: _return,
        c_ast.Break: _leave,
        c_ast.Continue: _leave,
    }  # fmt: skip


def _changed(*nodes: c_ast.Node | None) -> set[str]:
    """Return the names of the variables that these change, and of inner ones with the same names."""
    changed = set()
    for node in chain.from_iterable(_within(item) for item in nodes if item is not None):
        left = node.lvalue if isinstance(node, c_ast.Assignment) else None
        if isinstance(node, c_ast.UnaryOp) and node.op in _STEP:
            left = node.expr
        if isinstance(left, c_ast.ID):
            changed.add(left.name)
    return changed


def _within(node: c_ast.Node) -> Iterator[c_ast.Node]:
    yield node
    for _, child in node.children():
        yield from _within(child)


def _step_of(node: c_ast.Node | None) -> tuple[int, str | None]:
    """Return by how much a loop's last part increases which variable; 0 and None where it does something else."""
    if isinstance(node, c_ast.UnaryOp) and node.op in ("++", "p++") and isinstance(node.expr, c_ast.ID):
        return 1, node.expr.name
    if isinstance(node, c_ast.Assignment) and isinstance(node.lvalue, c_ast.ID) and node.op in ("=", "+="):
        name, step = node.lvalue.name, node.rvalue
        if node.op == "=":
            if not isinstance(step, c_ast.BinaryOp) or step.op != "+" or not isinstance(step.left, c_ast.ID):
                return 0, None
            if step.left.name != name:
                return 0, None
            step = step.right
        if isinstance(step, c_ast.Constant) and step.value.isdecimal() and step.value[0] != "0":
            return int(step.value), name
    return 0, None
