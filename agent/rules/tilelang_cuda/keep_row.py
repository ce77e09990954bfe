"""Keep a row that two loops read in shared memory, so that memory is read once."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from ....core import Parameter, PythonKernel
from ...analysis.source import expression, names
from ...analysis.template import match, matches
from ...analysis.tilelang_cuda.builders import Builder, builders_of, the_one
from ...analysis.tree import Statement, block_of
from ..rule import Change, Rewritten, need, require, rule

_LOOP = "for q_step in T.serial(T.ceildiv(q_size, q_block)): q__"
_FIRST = (
    """
for q_step in T.serial(T.ceildiv(q_size, q_block)):
    T.copy(q_tensor[q_row, q_step * q_block], q_tile)
    q__
""",
    """
for q_step in T.serial(T.ceildiv(q_size, q_block)):
    for q_j in T.Parallel(q_block):
        q_tile[q_j] = T.if_then_else(
            q_step * q_block + q_j < q_size, q_tensor[q_row, q_step * q_block + q_j], q_outside
        )
    q__
""",
)
_SECOND = """
for q_step in T.serial(T.ceildiv(q_size, q_block)):
    T.copy(q_tensor[q_row, q_step * q_block], q_tile)
    for q_j in T.Parallel(q_block):
        q_tile[q_j] = q_value
    T.copy(q_tile, q_result[q_row, q_step * q_block])
"""
THREADS = (256, 512, 1024)
BLOCKS = (4096, 8192, 16384, 32768)


@rule("memory", "streams", builders_of).because(
    "a row that is read twice from memory costs a third more traffic than one that is kept"
)
def keep_row(builders: list[Builder], change: Change) -> Rewritten:
    """Keep in shared memory what a first loop over a row has read, for a second loop that writes.

    Needs two loops over the same blocks of a row. Each begins with the load of a block into a fragment; the second then
    computes its elements one by one and stores them to the same place of another tensor, so what a load leaves past the
    end of the row does not matter. A row of fp32 must fit the shared memory of a block, 227 KiB: longer ones do not
    compile. Block and threads are constants of the file.
    """
    passes = the_one(builders, lambda builder: _Passes.of(builder, change.kernel))
    block, threads, kept = passes.parts["block"], passes.builder.threads, change.fresh("kept")
    parts, first_load, second_load = passes.parts, block_of(passes.first)[0], block_of(passes.second)[0]
    size = f"T.ceildiv({parts['size']}, {block}) * {block}"
    change.before(passes.after, f'{kept} = T.alloc_shared(({size},), "float32")\n')
    change.after(first_load, f"T.copy({parts['tile']}, {kept}[{parts['step']} * {block}])\n")
    change.put_statements(second_load, f"T.copy({kept}[{passes.again['step']} * {block}], {passes.again['tile']})\n")
    change.parameters += [Parameter(block, BLOCKS, 8192), Parameter(threads, THREADS, 1024)]
    change.constraints += [f"{block} <= 32 * {threads}", f"{block} >= 4 * {threads}"]
    return change.settled("kept the row in shared memory between the loop that reads it first and the one that writes")


@dataclass(frozen=True)
class _Passes:
    builder: Builder
    first: cst.CSTNode
    second: cst.CSTNode
    after: Statement
    """The statement after the last allocation."""
    parts: dict[str, str]
    """Matched parts of the first loop."""
    again: dict[str, str]
    """Matched parts of the second loop."""

    @classmethod
    def of(cls, builder: Builder, kernel: PythonKernel) -> _Passes:
        """Return the two loops of a builder. Raises NotApplicableError."""
        loops = [s for s in builder.statements if matches(s, _LOOP)]
        two = len(loops) == 2 and loops[1] is builder.statements[-1]
        require(two, "not two loops over the blocks of a row, the second at the end")
        first, second = loops
        parts = next(filter(None, (match(template, first) for template in _FIRST)), None)
        parts = need(parts, "the first loop does not begin with its load")
        again = match(_SECOND, second, {item: parts[item] for item in ("size", "block", "tensor", "row")})
        again = need(again, "the second loop does not load the row, compute its elements one by one and store them")
        reads = builder.tensors.keys() & names(expression(again["value"]))
        require(not reads, "the second loop reads another tensor")
        kept = all(builder.tiles.get(item["tile"], ("",))[0] == "fragment" for item in (parts, again))
        require(kept, "a block is not loaded into a fragment")
        known = builder.tensors.get(parts["tensor"]) is not None and builder.uses(parts["tensor"]) == 2
        require(known, "the row's tensor is used elsewhere")
        constants = all(isinstance(kernel.config.get(item), int) for item in (parts["block"], builder.threads))
        require(constants, "block and threads are not constants of the file")
        last = max(list(builder.statements).index(s) for _, _, s in builder.tiles.values())
        return cls(builder, first, second, builder.statements[last + 1], parts, again)
