"""A row that two loops read is read once from memory, and the second time from shared memory."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from ....core import Parameter, PythonKernel
from ...analysis.applicability import need, require
from ...analysis.change import Change, Rewritten
from ...analysis.source import Statement, names
from ...analysis.template import match
from ...analysis.tilelang_cuda.builders import Builder, body_of, builders_of, copy_of, the_one
from ...analysis.tilelang_cuda.space import redeclared
from ..rule import rule

_BLOCKS = "T.serial(T.ceildiv(q_size, q_block))"
_MASKED = """
for q_j in T.Parallel(q_block):
    q_tile[q_j] = T.if_then_else(
        q_step * q_block + q_j < q_size, q_tensor[q_row, q_step * q_block + q_j], q_outside
    )
"""
_LOAD = "T.copy(q_tensor[q_row, q_step * q_block], q_tile)"
_EACH = """
for q_j in T.Parallel(q_block):
    q_tile[q_j] = q_value
"""
_STORE = "T.copy(q_tile, q_result[q_row, q_step * q_block])"
THREADS = (256, 512, 1024)
BLOCKS = (4096, 8192, 16384, 32768)


@rule(
    "keep-row",
    category="memory",
    work="streams",
    why="a row that is read twice from memory costs a third more traffic than one that is kept",
    reads=builders_of,
)
def keep_row(builders: list[Builder], change: Change) -> Rewritten:
    """Keep in shared memory what a first loop over a row has read, for a second loop that writes.

    Needs two loops over the same blocks of a row. Each begins with the load of a block into a fragment; the second then
    computes its elements one by one and stores them to the same place of another tensor, so what a load leaves past the
    end of the row does not matter. A row of fp32 must fit the shared memory of a block, 227 KiB: longer ones do not
    compile. Block and threads are constants of the file.
    """
    passes = the_one(builders, lambda builder: _Passes.of(builder, change.kernel))
    passes.keep(change)
    block, threads = passes.parts["block"], passes.builder.threads
    change.parameters += [Parameter(block, BLOCKS, 8192), Parameter(threads, THREADS, 1024)]
    change.constraints += [f"{block} <= 32 * {threads}", f"{block} >= 4 * {threads}"]
    did = "kept the row in shared memory between the loop that reads it first and the one that writes"
    return change.finished(redeclared(change), did)


@dataclass(frozen=True)
class _Passes:
    builder: Builder
    first_load: Statement
    second_load: Statement
    after: Statement
    """The statement after the last allocation."""
    parts: dict[str, str]

    @classmethod
    def of(cls, builder: Builder, kernel: PythonKernel) -> _Passes:
        """Return the two loops of a builder. Raises NotApplicable."""
        loops = [s for s in builder.statements if isinstance(s, cst.For) and match(_BLOCKS, s.iter)]
        two = len(loops) == 2 and loops[1] is builder.statements[-1]
        require(two, "not two loops over the blocks of a row, the second at the end")
        first, second = loops
        header, step = match(_BLOCKS, first.iter), {"step": names(first.target).pop()}
        parts = need(_load(body_of(first)[0], (header or {}) | step), "the first loop does not begin with its load")
        require(len(body_of(second)) == 3, "the second loop is not a load, a computation and a store")
        load, each, store = body_of(second)
        same = {item: parts[item] for item in ("tensor", "row", "block")}
        again = match(_LOAD, load, same | {"step": names(second.target).pop()})
        again = need(again, "the second loop loads another row")
        whole = match(_BLOCKS, second.iter, {"size": parts["size"], "block": parts["block"]})
        value = match(_EACH, each, {"tile": again["tile"], "block": parts["block"]})
        stored = match(_STORE, store, {item: again[item] for item in ("tile", "row", "step", "block")})
        require(whole is not None and stored is not None, "the second loop stores to another place")
        value = need(value, "the second loop does not compute its elements one by one")
        reads = builder.tensors.keys() & names(cst.parse_expression(value["value"]))
        require(not reads, "the second loop reads another tensor")
        kept = all(builder.tiles.get(item, ("",))[0] == "fragment" for item in (parts["tile"], again["tile"]))
        require(kept, "a block is not loaded into a fragment")
        known = builder.tensors.get(parts["tensor"]) is not None and builder.uses(parts["tensor"]) == 2
        require(known, "the row's tensor is used elsewhere")
        constants = all(isinstance(kernel.config.get(item), int) for item in (parts["block"], builder.threads))
        require(constants, "block and threads are no constants of the file")
        allocated = [s for _, _, s in builder.tiles.values()]
        position = max(list(builder.statements).index(s) for s in allocated)
        return cls(builder, body_of(first)[0], load, builder.statements[position + 1], parts | {"again": again["tile"]})

    def keep(self, change: Change) -> None:
        """Put copies to and from a shared buffer into both loops."""
        parts, kept = self.parts, change.fresh("kept")
        size = f"T.ceildiv({parts['size']}, {parts['block']}) * {parts['block']}"
        step = need(match(_LOAD, self.second_load), "the second loop has no load")
        change.before(self.after, f'{kept} = T.alloc_shared(({size},), "float32")\n')
        change.after(self.first_load, f"T.copy({parts['tile']}, {kept}[{parts['step']} * {parts['block']}])\n")
        reread = f"T.copy({kept}[{step['step']} * {parts['block']}], {parts['again']})\n"
        change.put_statements(self.second_load, reread)


def _load(statement: Statement, known: dict[str, str]) -> dict[str, str] | None:
    """Return the parts of a load of one block of a row, None for another statement."""
    copy = copy_of(statement)
    if copy is not None:
        return match(_LOAD, statement, known)
    return match(_MASKED, statement, known)
