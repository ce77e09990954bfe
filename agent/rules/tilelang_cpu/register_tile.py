"""Let one block compute several adjacent blocks, so that a shared operand is loaded once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import libcst as cst

from ...analysis.source import code, expression, fresh, names, spells, statements, substitute
from ...analysis.template import match, matches
from ...analysis.tilelang import accesses, cpu_tilelang, is_prim_func, loop_of, make_loop, nest_of, rebuild
from ...analysis.tree import Statement, assignment, block_of, calls_in, edited, find_all, only_line, with_block
from ..rule import Change, Rewritten, need, need_a, require, rule

FACTORS = (2, 4, 8)


@rule("compute", "products", cpu_tilelang).because(
    "blocks that share an operand each load it; one block that computes several loads it once"
)
def register_tile(module: cst.Module, change: Change) -> Rewritten:
    """Coarsen one axis of the grid: a block does TILE steps of it, innermost and unrolled.

    The accumulators get a leading axis, and each statement is repeated for every step, so an operand that does not
    depend on the axis is loaded once for all steps. Needs a nest `acc[...] += a * b` with one factor that depends on
    the axis and one that does not. Blocks are independent, so they may run in lockstep; the compiler guards the
    steps beyond the end of the axis.
    """
    constant = change.constant("TILE", FACTORS, FACTORS[0])
    functions = [function for function in find_all(module, cst.FunctionDef) if is_prim_func(function)]
    axes = change.each(
        functions, lambda function, change: _tile(function, change, constant), "the file has no prim_func"
    )
    return change.rewritten(f"let each block compute {constant} steps of {', '.join(axes)}")


def _tile(function: cst.FunctionDef, change: Change, constant: str) -> str:
    none = f"{function.name.value} is not one T.Kernel block of several axes"
    plain = not spells(function, ".*TILE.*") and not calls_in(function, "T.atomic_*")
    require(plain, "the blocks have atomics, or are tiled already")
    block = need_a(cst.With, function.body.body[0], none)
    require(len(function.body.body) == 1, none)
    call, alias = need_a(cst.Call, block.items[0].item, none), need(block.items[0].asname, none)
    axes = [code(element.value) for element in need_a(cst.Tuple, alias.name, none).elements]
    require(len(axes) == len(call.args), "the grid has other arguments than its axes")
    allocated = [
        match("q_name = T.alloc_local(q_shape, q__)", assignment) for assignment in find_all(block, cst.Assign)
    ]
    buffers = {found["name"]: found["shape"] for found in allocated if found}
    # An axis that was computed from a part (split over threads) is not a plain axis any more.
    shared = [position for position, axis in enumerate(axes) if _shares_operand(block, axis, buffers)]
    require(shared, "no axis of the grid shares an operand of a product between blocks")
    tile = _Tile(axes[shared[-1]], fresh("step", set(change.taken)), constant, buffers)
    extent = call.args[shared[-1]].value
    change.put(extent, f"T.ceildiv({code(extent)}, {constant})")
    for statement in block_of(block):
        change.put_statements(statement, tile.repeated(statement))
    return tile.axis


def _shares_operand(block: cst.With, axis: str, buffers: Mapping[str, str]) -> bool:
    """Return whether some reduction multiplies an operand that depends on the axis with one that does not."""
    for node in find_all(block, cst.For):
        nest = nest_of(node)
        parts = assignment(nest[-1].only) if nest else None
        if parts is None or parts[1] != "+=" or len(nest) < 2 or code(parts[0]).split("[")[0] not in buffers:
            continue
        operands = [a for a in accesses(parts[2]) if a.buffer not in buffers]
        depends = [any(axis in names(expression(part)) for part in a.index) for a in operands]
        plain = all(part == axis for a in operands for part in a.index if axis in names(expression(part)))
        if any(depends) and not all(depends) and plain:
            return True
    return False


@dataclass(frozen=True)
class _Tile:
    axis: str
    step: str
    constant: str
    buffers: Mapping[str, str]
    """The local buffers of a block, and the text of their shapes."""

    def repeated(self, statement: Statement) -> list[Statement]:
        """Repeat a statement of the block for every step. Raises NotApplicableError where its form is not supported."""
        if isinstance(statement, cst.For):
            loop = need(loop_of(statement), "a loop of the block is none over T.serial, T.grid or T.unroll")
            require(self.axis not in names(*map(expression, loop.extents)), "the extent of a loop depends on the axis")
            return [rebuild(loop, self._all(loop.body))]
        if isinstance(statement, cst.If):
            # The body of a guard over other axes (the split over threads leaves such a guard), not the guard.
            plain = not statement.orelse and self.axis not in names(statement.test) and not accesses(statement.test)
            require(plain, "a branch of the block depends on the axis, or has another one")
            return [with_block(statement, self._all(block_of(statement)))]
        line = need(only_line(statement), "the block has a statement of another form")
        text = code(statement).strip()
        allocation = re.fullmatch(r"(\w+) = T\.alloc_local\(\((.*)\), (.*)\)", text, re.DOTALL)
        if allocation:
            shape = allocation[2].rstrip(", ")
            (new,) = statements(f"{allocation[1]} = T.alloc_local(({self.constant}, {shape}), {allocation[3]})\n")
            return [new.with_changes(leading_lines=cst.ensure_type(statement, cst.SimpleStatementLine).leading_lines)]
        if matches(line, "T.clear(q_buffer)"):
            return [statement]
        fill = match("T.fill(q_buffer, q_value)", line)
        if fill and fill["buffer"] in self.buffers:
            extents = [part.strip() for part in self.buffers[fill["buffer"]].strip("()").split(",") if part.strip()]
            variables = [f"i{n}" for n in range(len(extents))]
            (store,) = statements(f"{fill['buffer']}[{', '.join(variables)}] = {fill['value']}\n")
            return [make_loop(variables, extents, self._stepped(store))]
        touched = accesses(statement)
        if not touched and self.axis not in names(statement):
            return [statement]
        require(assignment(statement) is not None and touched, "the block has a statement of another form")
        return self._stepped(statement)

    def _all(self, body: Iterable[Statement]) -> list[Statement]:
        return [new for part in body for new in self.repeated(part)]

    def _stepped(self, statement: Statement) -> list[Statement]:
        moved = substitute(statement, {self.axis: f"{self.axis} * {self.constant} + {self.step}"})
        first = cst.SubscriptElement(cst.Index(cst.Name(self.step)))
        own = [access for access in find_all(moved, cst.Subscript) if code(access.value) in self.buffers]
        led = edited(moved, {access: lambda old: old.with_changes(slice=[first, *old.slice]) for access in own})
        return [make_loop([self.step], [self.constant], [led], "unroll")]
