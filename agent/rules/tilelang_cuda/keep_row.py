"""A row that two loops read is read once from memory, and the second time from shared memory."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from ....core import Parameter, PythonKernel
from ...analysis.edit import Edit, before, edited, put_statements
from ...analysis.source import Statement, fresh, names, statements, tree_and_names
from ...analysis.template import match
from ...analysis.tilelang_cuda.builders import Builder, body_of, builders_of, copy_of
from ...analysis.tilelang_cuda.space import redeclared
from ..rule import Machine, Rewritten, with_source

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


@dataclass(frozen=True)
class KeepRow:
    """Keep in shared memory what a first loop over a row has read, for a second loop that writes.

    Needs two loops over the same blocks of a row. Each begins with the load of a block into a fragment; the second then
    computes its elements one by one and stores them to the same place of another tensor, so what a load leaves past the
    end of the row does not matter. A row of fp32 must fit the shared memory of a block, 227 KiB: longer ones do not
    compile. Block and threads are constants of the file.
    """

    name = "keep-row"
    category = "memory"
    work = "streams"
    why = "a row that is read twice from memory costs a third more traffic than one that is kept"

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten | None:
        """Return the kernel with its rows kept, or None where it has no such loops."""
        found = [one for builder in builders_of(kernel) if (one := _Passes.of(builder, kernel))]
        module, taken = tree_and_names(kernel)
        if len(found) != 1:
            return None
        (passes,) = found
        module = edited(module, passes.edits(fresh("kept", taken)))
        block, threads = passes.parts["block"], passes.builder.threads
        parameters = (Parameter(block, BLOCKS, 8192), Parameter(threads, THREADS, 1024))
        constraints = (f"{block} <= 32 * {threads}", f"{block} >= 4 * {threads}")
        return Rewritten(
            with_source(kernel, redeclared(kernel, module, parameters, constraints)),
            "kept the row in shared memory between the loop that reads it first and the one that writes",
            parameters,
            constraints,
        )


@dataclass(frozen=True)
class _Passes:
    builder: Builder
    first_load: Statement
    second_load: Statement
    after: Statement
    """The statement after the last allocation."""
    parts: dict[str, str]

    @classmethod
    def of(cls, builder: Builder, kernel: PythonKernel) -> _Passes | None:
        loops = [s for s in builder.statements if isinstance(s, cst.For) and match(_BLOCKS, s.iter)]
        if len(loops) != 2 or loops[1] is not builder.statements[-1]:
            return None
        first, second = loops
        header, step = match(_BLOCKS, first.iter), {"step": names(first.target).pop()}
        parts = _load(body_of(first)[0], (header or {}) | step)
        if parts is None or len(body_of(second)) != 3:
            return None
        load, each, store = body_of(second)
        same = {one: parts[one] for one in ("tensor", "row", "block")}
        again = match(_LOAD, load, same | {"step": names(second.target).pop()})
        if again is None or match(_BLOCKS, second.iter, {"size": parts["size"], "block": parts["block"]}) is None:
            return None
        value = match(_EACH, each, {"tile": again["tile"], "block": parts["block"]})
        stored = match(_STORE, store, {one: again[one] for one in ("tile", "row", "step", "block")})
        if value is None or stored is None or builder.tensors.keys() & names(cst.parse_expression(value["value"])):
            return None
        if any(builder.tiles.get(one, ("",))[0] != "fragment" for one in (parts["tile"], again["tile"])):
            return None
        if builder.tensors.get(parts["tensor"]) is None or builder.uses(parts["tensor"]) != 2:
            return None
        if any(not isinstance(kernel.config.get(one), int) for one in (parts["block"], builder.threads)):
            return None
        allocated = [s for _, _, s in builder.tiles.values()]
        position = max(list(builder.statements).index(s) for s in allocated)
        return cls(builder, body_of(first)[0], load, builder.statements[position + 1], parts | {"again": again["tile"]})

    def edits(self, kept: str) -> dict[cst.CSTNode, Edit]:
        parts = self.parts
        size = f"T.ceildiv({parts['size']}, {parts['block']}) * {parts['block']}"
        keep = f"T.copy({parts['tile']}, {kept}[{parts['step']} * {parts['block']}])\n"
        step = match(_LOAD, self.second_load)
        assert step is not None
        reread = f"T.copy({kept}[{step['step']} * {parts['block']}], {parts['again']})\n"
        return {
            self.after: before(f'{kept} = T.alloc_shared(({size},), "float32")\n'),
            self.first_load: lambda node: cst.FlattenSentinel(
                [cst.ensure_type(node, type(self.first_load)), *statements(keep)]
            ),
            self.second_load: put_statements(reread),
        }


def _load(statement: Statement, known: dict[str, str]) -> dict[str, str] | None:
    """Return the parts of a load of one block of a row, None for another statement."""
    copy = copy_of(statement)
    if copy is not None:
        return match(_LOAD, statement, known)
    return match(_MASKED, statement, known)
