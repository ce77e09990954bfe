"""Finds the passes of a function over one row: loops over its blocks, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ..search import find_all
from ..source import code, statements
from .function import RANGE, Function, argument, calls_in
from .values import Values, assigned_in


@dataclass(frozen=True)
class Passes:
    """Loops `for start in range(0, extent, block):` with one extent and one block, at the top level of a function."""

    function: Function
    loops: tuple[cst.For, ...]
    block: str
    """The `tl.constexpr` parameter that is the loops' step."""
    extent: int
    values: Values
    """Knows `extent`, up to the first loop."""

    def extent_on_host(self, arguments: dict[str, str]) -> str | None:
        """Write the extent with the launch's arguments; None where it is more than sums and products of them."""
        return self.values.text(self.extent, arguments)

    @property
    def extent_text(self) -> str:
        """The extent as the first loop has it."""
        return code(cst.ensure_type(self.loops[0].iter, cst.Call).args[1].value)

    @property
    def length(self) -> int | None:
        """The extent where the function has it as a number."""
        return self.values.constant(self.extent)

    def straight(self) -> Iterator[cst.BaseStatement]:
        """Yield the function's statements, each loop as its body for `start = 0`: right where the block holds a row."""
        for statement in body_of(self.function.node):
            if isinstance(statement, cst.For) and statement in self.loops:
                yield statements(f"{variable(statement)} = 0\n")[0].with_changes(leading_lines=statement.leading_lines)
                yield from body_of(statement)
            else:
                yield statement

    def masks_its_end(self) -> bool:
        """Return whether every access that moves with a loop is masked by `... < extent`, so any block is right."""
        values = Values()
        for statement in body_of(self.function.node):
            if isinstance(statement, cst.For) and statement in self.loops:
                extent = self._extent(values)
                before, start = dict(values.names), values.unknown("start")
                moving = {start}
                for name in assigned_in(statement) & {*before}:  # carried from step to step
                    values.names[name] = values.unknown(name)
                    moving.add(values.names[name])
                values.names[variable(statement)] = start
                for inner in body_of(statement):
                    if not all(
                        _is_masked(values, call, start, moving, extent) for call in calls_in(inner, "load", "store")
                    ):
                        return False
                    values.run(inner)
            else:
                values.run(statement)
        return True

    def _extent(self, values: Values) -> int:
        call = cst.ensure_type(self.loops[0].iter, cst.Call)
        return values.of(call.args[1].value)


def passes_of(function: Function) -> Passes | None:
    """Return the function's passes over its row; None where it has no loop of this form, or of two kinds."""
    values = Values()
    loops: list[cst.For] = []
    kinds: set[tuple[int, str]] = set()
    first: tuple[int, Values] | None = None
    for statement in body_of(function.node):
        if isinstance(statement, cst.For) and (step := _step(function, statement)) is not None:
            extent = values.of(cst.ensure_type(statement.iter, cst.Call).args[1].value)
            kinds.add((extent, step))
            loops.append(statement)
            first = first or (extent, values)
        values.run(statement)
    if first is None or len(kinds) != 1:
        return None
    ((extent, block),) = kinds
    return Passes(function, tuple(loops), block, extent, values)


def body_of(node: cst.FunctionDef | cst.For) -> list[cst.BaseStatement]:
    """Return the statements of a block, without a documentation string."""
    found = [statement for statement in node.body.body if isinstance(statement, cst.BaseStatement)]
    text = m.SimpleStatementLine([m.Expr(m.SimpleString() | m.ConcatenatedString())])
    return found[1:] if found and m.matches(found[0], text) else found


def variable(loop: cst.For) -> str:
    """Return the variable of a loop that `passes_of` found."""
    return cst.ensure_type(loop.target, cst.Name).value


def _step(function: Function, loop: cst.For) -> str | None:
    """Return the block of `for name in range(0, extent, BLOCK)`; None for another form of loop."""
    jumps = find_all(loop, m.Break() | m.Continue() | m.Return())
    if loop.orelse or jumps or not m.matches(loop, m.For(target=m.Name(), iter=m.Call(func=RANGE))):
        return None
    call = cst.ensure_type(loop.iter, cst.Call)
    plain = [arg.value for arg in call.args if arg.keyword is None]
    if len(plain) != 3 or not m.matches(plain[0], m.Integer("0")):
        return None
    step = plain[2]
    return step.value if isinstance(step, cst.Name) and step.value in function.constexprs else None


def _is_masked(values: Values, call: cst.Call, start: int, moving: set[int], extent: int) -> bool:
    is_store = m.matches(call, m.Call(func=m.Attribute(attr=m.Name("store"))))
    pointer, mask = argument(call, "pointer", 0), argument(call, "mask", 2 if is_store else 1)
    if pointer is None or not moving.intersection(values.parts(values.of(pointer))):
        return pointer is not None
    if mask is None:
        return False
    for part in values.parts(values.of(mask)):
        match values.key(part):
            case ("<", int(left), right) if right == extent and start in values.parts(left):
                return True
    return False
