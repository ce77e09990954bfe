"""Finds the passes of a function over one row: loops over its blocks, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ..applicability import require
from ..source import bare, code, statements
from ..template import matches
from ..tree import assigned_in, body_of, calls_in, find_all
from .function import Function, argument, is_range
from .values import ValueNumbers


@dataclass(frozen=True)
class Passes:
    """Loops `for start in range(0, extent, block):` with one extent and one block, at the top level of a function."""

    function: Function
    loops: tuple[cst.For, ...]
    block: str
    """The `tl.constexpr` parameter that is the loops' step."""
    extent: int
    values: ValueNumbers
    """Knows `extent`, up to the first loop."""

    @property
    def extent_text(self) -> str:
        """The extent as the first loop has it."""
        return extent_of(self.loops[0])

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
        values = ValueNumbers()
        for statement in body_of(self.function.node):
            if isinstance(statement, cst.For) and statement in self.loops:
                extent = values.of(self.extent_text)
                carried, start = assigned_in(statement) & values.names.keys(), values.unknown("start")
                values.forget(carried)
                moving = {start, *(values.names[name] for name in carried)}
                values.names[variable(statement)] = start
                for inner in body_of(statement):
                    accesses = calls_in(inner, "tl.load", "tl.store")
                    if not all(_is_masked(values, call, start, moving, extent) for call in accesses):
                        return False
                    values.run(inner)
            else:
                values.run(statement)
        return True


def passes_of(function: Function) -> Passes:
    """Return the function's passes over its row.

    Raises NotApplicableError for no loop of this form, and for two kinds.
    """
    values, loops, kinds = ValueNumbers(), list[cst.For](), set[tuple[int, str]]()
    for statement in body_of(function.node):
        if isinstance(statement, cst.For) and (step := _step(function, statement)) is not None:
            kinds.add((values.of(extent_of(statement)), step))
            loops.append(statement)
        values.run(statement)
    require(len(kinds) == 1, "no passes over one row by one block")
    ((extent, block),) = kinds
    return Passes(function, tuple(loops), block, extent, values)


def extent_of(loop: cst.For) -> str:
    """Return the extent of a loop that `passes_of` found."""
    return code(cst.ensure_type(loop.iter, cst.Call).args[1].value)


def variable(loop: cst.For) -> str:
    """Return the variable of a loop that `passes_of` found."""
    return cst.ensure_type(loop.target, cst.Name).value


def _step(function: Function, loop: cst.For) -> str | None:
    """Return the block of `for name in range(0, extent, BLOCK)`; None for another form of loop."""
    jumps = find_all(loop, m.Break() | m.Continue() | m.Return())
    if jumps or not is_range(loop):
        return None
    plain = [code(bare(arg.value)) for arg in cst.ensure_type(loop.iter, cst.Call).args if arg.keyword is None]
    return plain[2] if len(plain) == 3 and plain[0] == "0" and plain[2] in function.constexprs else None


def _is_masked(values: ValueNumbers, call: cst.Call, start: int, moving: set[int], extent: int) -> bool:
    pointer, mask = argument(call, "pointer", 0), argument(call, "mask", 2 if matches(call, "tl.store(q__)") else 1)
    if pointer is None or not moving.intersection(values.parts(values.of(pointer))):
        return pointer is not None
    if mask is None:
        return False
    for part in values.parts(values.of(mask)):
        match values.key(part):
            case ("<", int(left), right) if right == extent and start in values.parts(left):
                return True
    return False
