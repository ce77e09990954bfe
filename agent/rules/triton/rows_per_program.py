"""Give each program several short rows, as a block of two axes."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from ...analysis.source import code, expression, fresh, names, put, replace_expression, statements
from ...analysis.template import matches
from ...analysis.tree import Edit, block_of, body_of, calls_in, edited, find_all, with_block
from ...analysis.triton import PROGRAM, Launch, TritonKernel, ValueNumbers, argument
from ..rule import Change, Rewritten, require, rule

ELEMENTS = (1024, 2048, 4096, 8192, 16384)
_REDUCTIONS = ("tl.sum", "tl.max", "tl.min")
_NEITHER = ("tl.num_programs", "tl.argm*", "tl.cum*", "tl.associative_scan", "tl.reduce", "tl.sort", "tl.reshape")
_SHAPED = ("tl.view", "tl.trans", "tl.dot", "tl.atomic*", "tl.join", "tl.flip")
_BRANCHES = m.For() | m.While() | m.If() | m.Return() | m.Subscript()


@rule("parallelism", "streams", TritonKernel.read).because(
    "a short row leaves most lanes of a program idle, and programs cost more than the rows"
)
def rows_per_program(kernel: TritonKernel, change: Change) -> Rewritten:
    """Compute as many rows in a program as make up a number of elements, if one row is shorter.

    Needs a function without loops and branches whose only block is a row, at `tl.program_id(0)` of a grid of one axis,
    with sums, maxima or minima across the row. What depends on the program becomes a column of rows, what depends on
    the lane a row of columns; rows behind the last are masked.
    """
    elements = change.constant("PROGRAM_ELEMENTS", ELEMENTS, 4096)

    def give_rows(launch: Launch, change: Change) -> None:
        launch.require_alone()
        block = _row(launch)
        local = {*launch.function.parameters, *names(launch.function.node)}
        each, rows, count = (fresh(name, local) for name in ("ROWS", "rows", "n_rows"))
        change.edit(launch.function.node, _two_axes(launch, block, each, rows, count))
        change.add_parameters(launch.function.node, [count], [each])
        change.put_statements(launch.statement, _host(launch, block, each, count, elements, change))

    change.each(kernel.launched_once(), give_rows)
    return change.rewritten("gave each program several short rows")


def _row(launch: Launch) -> str:
    function, node = launch.function, launch.function.node
    sizes = {code(call.args[-1].value) for call in function.calls("arange")}
    reductions = calls_in(node, *_REDUCTIONS)
    reduces = len(sizes) == 1 and reductions and not function.has_products
    require(reduces, "the function does not reduce one block")
    require(len(launch.axes) == 1, "the grid has not one axis")
    (block,) = sizes
    programs, other = function.calls("program_id"), calls_in(node, *_NEITHER, *_SHAPED) or find_all(node, _BRANCHES)
    require(not other, "the function has loops, branches, subscripts or calls that know the shape of a block")
    across = all(matches(reduction, "q_f(q_x, axis=0)") for reduction in reductions)
    require(across, "a reduction is not written as `(block, axis=0)`")
    numbered = programs and all(matches(program, PROGRAM) for program in programs)
    require(numbered, "the row is not at `tl.program_id(0)`")
    helpers = {code(call.func) for call in find_all(node, cst.Call, m.Call(func=m.Name()))}
    require(helpers <= {"float", "int", "min", "max"}, "the function calls another one")
    given = block in function.constexprs and isinstance(launch.arguments.get(block), cst.Name)
    require(given, "the launch gives the block's size by no name")
    return block


def _host(launch: Launch, block: str, each: str, count: str, elements: str, change: Change) -> str:
    (grid,), size, rows = launch.axes, launch.texts[block], change.fresh("rows_each")
    values = {each: rows, count: grid}
    warps = launch.options.get("num_warps")
    if warps is not None and size in names(warps):
        values["num_warps"] = code(replace_expression(warps, size, f"({rows} * {size})"))
    call = launch.relaunched(launch.function.name, values, f"(triton.cdiv({grid}, {rows}),)")
    return f"{rows} = max(1, {elements} // {size})\n{code(call)}\n"


def _two_axes(launch: Launch, block: str, each: str, rows: str, count: str) -> Edit:
    function = launch.function
    values = ValueNumbers()
    program = values.of("tl.program_id(0)")
    edits: dict[cst.CSTNode, Edit] = {}
    for statement in body_of(function.node):
        for call in calls_in(statement, "tl.load", "tl.store"):
            pointer = argument(call, "pointer", 0)
            if pointer is not None and program in values.parts(values.of(pointer)):
                edits[call] = lambda node: _masked(node, f"{rows} < {count}")
        values.run(statement)
    for call in function.calls("arange"):
        edits[call] = lambda node: expression(f"{code(node)}[None, :]")
    for call in function.calls("program_id"):
        edits[call] = put(rows)
    for call in calls_in(function.node, *_REDUCTIONS):  # along the second axis, which it keeps
        edits[call] = lambda old: expression(f"{code(old.func)}({code(old.args[0].value)}, axis=1, keep_dims=True)")
    for shape in find_all(function.node, cst.Tuple, m.Tuple(elements=[m.Element(m.Name(block))])):
        edits[shape] = put(f"({each}, {block})")
    first = statements(f"{rows} = (tl.program_id(0) * {each} + tl.arange(0, {each}))[:, None]\n")
    changed = edited(function.node, edits)
    return lambda _: with_block(changed, [*first, *block_of(changed)])


def _masked(call: cst.Call, condition: str) -> cst.CSTNode:
    position = 2 if code(call.func) == "tl.store" else 1
    mask = argument(call, "mask", position)
    if mask is not None and code(mask) != "None":
        return edited(call, {mask: put(f"({code(mask)}) & ({condition})")})
    kept = [arg for at, arg in enumerate(call.args) if at != position or arg.keyword is not None]
    new = cst.Arg(expression(condition), cst.Name("mask"))
    plain = [arg for arg in kept if arg.keyword is None]
    named = [arg for arg in kept if arg.keyword is not None and arg.keyword.value != "mask"]
    args = [arg.with_changes(comma=cst.MaybeSentinel.DEFAULT) for arg in (*plain, new, *named)]
    return call.with_changes(args=args)
