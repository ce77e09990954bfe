"""Let one block compute several adjacent blocks, so that a shared operand is loaded once."""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst
import libcst.matchers as m

from ...analysis.applicability import require
from ...analysis.change import Change, Rewritten
from ...analysis.search import find_all
from ...analysis.source import Statement, assignment, code, expression, fresh, names, statements, substitute
from ...analysis.tilelang import accesses, cpu_tilelang, is_prim_func, loop_of, make_loop, nest_of, rebuild
from ..rule import rule

FACTORS = (2, 4, 8)


@rule(
    "register-tile",
    category="compute",
    work="products",
    why="blocks that share an operand each load it; one block that computes several loads it once",
    reads=cpu_tilelang,
)
def register_tile(module: cst.Module, change: Change) -> Rewritten:
    """Coarsen one axis of the grid: a block does TILE steps of it, innermost and unrolled.

    The accumulators get a leading axis, and each statement is repeated for every step, so an operand that does not
    depend on the axis is loaded once for all steps. Needs a nest `acc[...] += a * b` with one factor that depends on
    the axis and one that does not. Blocks are independent, so they may run in lockstep; the compiler guards the
    steps beyond the end of the axis.
    """
    constant = change.constant("TILE", FACTORS, FACTORS[0])
    tiler = _Tiler(constant, change.taken)
    change.module = module.visit(tiler)
    require(tiler.done, "no axis of the grid shares an operand of a product between blocks")
    return change.rewritten(f"let each block compute {constant} steps of {', '.join(tiler.done)}")


class _Tiler(cst.CSTTransformer):
    def __init__(self, constant: str, taken: set[str]) -> None:
        self.constant = constant
        self.taken = taken
        self.done: list[str] = []

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        if not is_prim_func(updated_node) or self.constant in code(updated_node) or "TILE" in code(updated_node):
            return updated_node
        blocks = [s for s in updated_node.body.body if isinstance(s, cst.With)]
        if len(blocks) != 1 or len(updated_node.body.body) != 1:
            return updated_node
        tiled = self._tiled(blocks[0])
        if tiled is None:
            return updated_node
        return updated_node.with_changes(body=updated_node.body.with_changes(body=[tiled]))

    def _tiled(self, block: cst.With) -> cst.With | None:
        item = block.items[0]
        call, alias = item.item, item.asname
        if not isinstance(call, cst.Call) or alias is None or not isinstance(alias.name, cst.Tuple):
            return None
        axes = [e.value.value for e in alias.name.elements if isinstance(e.value, cst.Name)]
        if len(axes) != len(call.args) or "T.atomic" in code(block):
            return None
        body = list(block.body.body)
        locals_ = _local_shapes(block)
        for position in range(len(axes) - 1, -1, -1):
            # An axis that was computed from a part (split over threads) is not a plain axis any more.
            if _shares_operand(block, axes[position], locals_):
                return self._coarsened(block, item, call, alias, axes, position, body, locals_)
        return None

    def _coarsened(
        self,
        block: cst.With,
        item: cst.WithItem,
        call: cst.Call,
        alias: cst.AsName,
        axes: list[str],
        position: int,
        body: Sequence[cst.CSTNode],
        locals_: dict[str, str],
    ) -> cst.With | None:
        axis, step = axes[position], fresh("step", set(self.taken))
        new_body: list[Statement] = []
        for statement in body:
            replaced = _repeat(statement, axis, step, self.constant, locals_)
            if replaced is None:
                return None
            new_body.extend(replaced)
        extent = code(call.args[position].value)
        arguments = list(call.args)
        arguments[position] = arguments[position].with_changes(
            value=expression(f"T.ceildiv({extent}, {self.constant})")
        )
        self.done.append(axis)
        return block.with_changes(
            items=[item.with_changes(item=call.with_changes(args=arguments))],
            body=block.body.with_changes(body=new_body),
        )


def _local_shapes(block: cst.CSTNode) -> dict[str, str]:
    """Return the local buffers of a block and the text of their shapes."""
    found = {}
    for node in find_all(block, m.Assign(value=m.Call(func=m.Attribute(m.Name("T"), m.Name("alloc_local"))))):
        assert isinstance(node, cst.Assign) and isinstance(node.value, cst.Call)
        if isinstance(node.targets[0].target, cst.Name):
            found[node.targets[0].target.value] = code(node.value.args[0].value)
    return found


def _shares_operand(block: cst.With, axis: str, locals_: dict[str, str]) -> bool:
    """Return whether some reduction multiplies an operand that depends on the axis with one that does not."""
    for node in find_all(block, m.For()):
        nest = nest_of(node)
        parts = assignment(nest[-1].only) if nest else None
        if parts is None or parts[1] != "+=" or len(nest) < 2:
            continue
        target, value = accesses(nest[-1].only)[0] if nest[-1].only else None, parts[2]
        if target is None or code(parts[0]).split("[")[0] not in locals_:
            continue
        operands = [a for a in accesses(value) if a.buffer not in locals_]
        depends = [any(axis in names(expression(part)) for part in a.index) for a in operands]
        plain = all(part == axis for a in operands for part in a.index if axis in names(expression(part)))
        if any(depends) and not all(depends) and plain:
            return True
    return False


def _repeat(
    statement: cst.CSTNode,
    axis: str,
    step: str,
    constant: str,
    locals_: dict[str, str],
) -> list[Statement] | None:
    """Repeat a statement of the block for every step; None when its form is not supported."""
    if isinstance(statement, cst.For):
        loop = loop_of(statement)
        if loop is None or any(axis in names(expression(extent)) for extent in loop.extents):
            return None
        inner: list[Statement] = []
        for part in loop.body:
            replaced = _repeat(part, axis, step, constant, locals_)
            if replaced is None:
                return None
            inner.extend(replaced)
        return [rebuild(loop, inner)]
    if isinstance(statement, cst.If):
        return _repeat_if(statement, axis, step, constant, locals_)
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return None
    text = code(statement).strip()
    allocation = re.fullmatch(r"(\w+) = T\.alloc_local\(\((.*)\), (.*)\)", text, re.DOTALL)
    if allocation:
        shape = allocation[2].rstrip(", ")
        return _keeping(statement, f"{allocation[1]} = T.alloc_local(({constant}, {shape}), {allocation[3]})")
    if re.fullmatch(r"T\.clear\(\w+\)", text):
        return [statement]
    fill = re.fullmatch(r"T\.fill\((\w+), (.*)\)", text, re.DOTALL)
    if fill and fill[1] in locals_:
        extents = [part.strip() for part in locals_[fill[1]].strip("()").split(",") if part.strip()]
        variables = [f"i{n}" for n in range(len(extents))]
        store = f"{fill[1]}[{', '.join(variables)}] = {fill[2]}"
        repeated = _stepped(statements(store + "\n")[0], axis, step, constant, locals_)
        return [make_loop(variables, extents, repeated)]
    if not accesses(statement) and axis not in names(statement):
        return [statement]
    if assignment(statement) is None or not accesses(statement):
        return None
    return _stepped(statement, axis, step, constant, locals_)


def _stepped(statement: Statement, axis: str, step: str, constant: str, locals_: dict[str, str]) -> list[Statement]:
    moved = substitute(statement, {axis: f"{axis} * {constant} + {step}"})

    class Lead(cst.CSTTransformer):
        def leave_Subscript(self, original_node: cst.Subscript, updated_node: cst.Subscript) -> cst.Subscript:
            if not isinstance(original_node.value, cst.Name) or original_node.value.value not in locals_:
                return updated_node
            first = cst.SubscriptElement(cst.Index(cst.Name(step)))
            return updated_node.with_changes(slice=[first, *updated_node.slice])

    new = moved.visit(Lead())
    assert isinstance(new, cst.BaseStatement)
    return [_unrolled(step, constant, [new])]


def _unrolled(step: str, constant: str, body: Sequence[Statement]) -> cst.For:
    loop = statements(f"for {step} in T.unroll({constant}):\n    pass\n")[0]
    assert isinstance(loop, cst.For)
    return loop.with_changes(body=cst.IndentedBlock(body=list(body)))


def _repeat_if(
    statement: cst.If, axis: str, step: str, constant: str, locals_: dict[str, str]
) -> list[Statement] | None:
    """Repeat the body of a guard over other axes (the split over threads leaves such a guard), not the guard."""
    if statement.orelse or axis in names(statement.test) or accesses(statement.test):
        return None
    if not isinstance(statement.body, cst.IndentedBlock):
        return None
    inner: list[Statement] = []
    for part in statement.body.body:
        replaced = _repeat(part, axis, step, constant, locals_)
        if replaced is None:
            return None
        inner.extend(replaced)
    return [statement.with_changes(body=statement.body.with_changes(body=inner))]


def _keeping(statement: cst.SimpleStatementLine, text: str) -> list[Statement]:
    return [statements(text + "\n")[0].with_changes(leading_lines=statement.leading_lines)]
