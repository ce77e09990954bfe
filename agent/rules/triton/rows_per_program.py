"""Give each program several short rows, as a block of two axes."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from ...analysis.applicability import require
from ...analysis.change import Change, Rewritten
from ...analysis.edit import Edit, edited
from ...analysis.search import find_all
from ...analysis.source import code, expression, fresh, names, replace_expression, statements
from ...analysis.triton import (
    PROGRAM,
    Launch,
    TritonKernel,
    Values,
    argument,
    body_of,
    calls_in,
    has_products,
    regridded,
    relaunched,
)
from ..rule import rule

ELEMENTS = (1024, 2048, 4096, 8192, 16384)
_TL = m.Name("tl")
_REDUCTION = m.Call(func=m.Attribute(_TL, m.Name("sum") | m.Name("max") | m.Name("min")))
_ACROSS = m.Call(args=[m.Arg(), m.Arg(keyword=m.Name("axis"), value=m.Integer("0"))])
_OTHER = m.MatchRegex(
    "num_programs|argm.*|cum.*|associative_scan|reduce|sort|reshape|view|trans|dot|atomic.*|join|flip"
)
_NEITHER = m.Call(func=m.Attribute(_TL, m.Name(_OTHER)))


@rule(
    "rows-per-program",
    category="parallelism",
    work="streams",
    why="a short row leaves most lanes of a program idle, and programs cost more than the rows",
    reads=TritonKernel.read,
)
def rows_per_program(kernel: TritonKernel, change: Change) -> Rewritten:
    """Compute as many rows in a program as make up a number of elements, if one row is shorter.

    Needs a function without loops and branches whose only block is a row, at `tl.program_id(0)` of a grid of one axis,
    with sums, maxima or minima across the row. What depends on the program becomes a column of rows, what depends on
    the lane a row of columns; rows behind the last are masked.
    """
    elements = change.constant("PROGRAM_ELEMENTS", ELEMENTS, 4096)

    def give_rows(launch: Launch, change: Change) -> None:
        require(launch.stands_alone, "the launch is no statement of its own")
        block = _row(launch)
        local = {*launch.function.parameters, *names(launch.function.node)}
        each, rows, count = (fresh(name, local) for name in ("ROWS", "rows", "n_rows"))
        change.edit(launch.function.node, _two_axes(launch, block, each, rows, count))
        change.add_parameters(launch.function.node, [count], [each])
        change.put_statements(launch.statement, _host(launch, block, each, count, elements, change))

    change.each(kernel.launched_once(), give_rows)
    return change.rewritten("gave each program several short rows")


def _row(launch: Launch) -> str:
    """Return the parameter that is the row's block. Raises NotApplicable."""
    function, node = launch.function, launch.function.node
    sizes = {code(call.args[-1].value) for call in function.calls("arange")}
    reductions = find_all(node, _REDUCTION)
    require(len(sizes) == 1 and reductions and not has_products(launch), "the function does not reduce one block")
    require(launch.grid is not None and len(launch.grid) == 1, "the grid has not one axis")
    (block,) = sizes
    programs = find_all(node, m.Call(func=m.Attribute(_TL, m.Name("program_id"))))
    other = find_all(node, _NEITHER | m.For() | m.While() | m.If() | m.Return() | m.Subscript())
    require(not other, "the function has loops, branches, subscripts or calls that know the shape of a block")
    across = all(m.matches(reduction, _ACROSS) for reduction in reductions)
    require(across, "a reduction is not written as `(block, axis=0)`")
    numbered = programs and all(m.matches(program, PROGRAM) for program in programs)
    require(numbered, "the row is not at `tl.program_id(0)`")
    helpers = find_all(node, m.Call(func=m.Name()))
    plain = all(code(call.func) in ("float", "int", "min", "max") for call in helpers if isinstance(call, cst.Call))
    require(plain, "the function calls another one")
    given = block in function.constexprs and isinstance(launch.arguments.get(block), cst.Name)
    require(given, "the launch gives the block's size by no name")
    return block


def _host(launch: Launch, block: str, each: str, count: str, elements: str, change: Change) -> str:
    grid = code(launch.grid[0]) if launch.grid else ""
    size = code(launch.arguments[block])
    rows = change.fresh("rows_each")
    values = {each: rows, count: grid}
    warps = launch.options.get("num_warps")
    if warps is not None and size in names(warps):
        values["num_warps"] = code(replace_expression(warps, size, f"({rows} * {size})"))
    call = regridded(relaunched(launch, launch.function.name, values), f"(triton.cdiv({grid}, {rows}),)")
    return f"{rows} = max(1, {elements} // {size})\n{code(call)}\n"


def _two_axes(launch: Launch, block: str, each: str, rows: str, count: str) -> Edit:
    function = launch.function
    values = Values()
    program = values.of("tl.program_id(0)")
    edits: dict[cst.CSTNode, Edit] = {}
    for statement in body_of(function.node):
        for call in calls_in(statement, "load", "store"):
            pointer = argument(call, "pointer", 0)
            if pointer is not None and program in values.parts(values.of(pointer)):
                edits[call] = lambda node: _masked(node, f"{rows} < {count}")
        values.run(statement)
    for call in function.calls("arange"):
        edits[call] = lambda node: expression(f"{code(node)}[None, :]")
    for one in find_all(function.node, PROGRAM):
        edits[one] = lambda _: expression(rows)
    for one in find_all(function.node, _REDUCTION):
        edits[one] = _kept
    for shape in find_all(function.node, m.Tuple(elements=[m.Element(m.Name(block))])):
        edits[shape] = lambda _: expression(f"({each}, {block})")

    def rewrite(node: cst.CSTNode) -> cst.CSTNode:
        changed = cst.ensure_type(edited(cst.Module(body=[function.node]), edits).body[0], cst.FunctionDef)
        first = statements(f"{rows} = (tl.program_id(0) * {each} + tl.arange(0, {each}))[:, None]\n")
        return changed.with_changes(body=changed.body.with_changes(body=[*first, *changed.body.body]))

    return rewrite


def _kept(node: cst.CSTNode) -> cst.CSTNode:
    """Return a reduction along the second axis that keeps it."""
    call = cst.ensure_type(node, cst.Call)
    return expression(f"{code(call.func)}({code(call.args[0].value)}, axis=1, keep_dims=True)")


def _masked(node: cst.CSTNode, condition: str) -> cst.CSTNode:
    """Return a load or store with one more condition in its mask."""
    call = cst.ensure_type(node, cst.Call)
    position = 2 if code(call.func) == "tl.store" else 1
    mask = argument(call, "mask", position)
    if mask is not None and code(mask) != "None":
        return cst.ensure_type(call.deep_replace(mask, expression(f"({code(mask)}) & ({condition})")), cst.Call)
    kept = [arg for at, arg in enumerate(call.args) if at != position or arg.keyword is not None]
    new = cst.Arg(expression(condition), cst.Name("mask"))
    plain = [arg for arg in kept if arg.keyword is None]
    named = [arg for arg in kept if arg.keyword is not None and arg.keyword.value != "mask"]
    args = [arg.with_changes(comma=cst.MaybeSentinel.DEFAULT) for arg in (*plain, new, *named)]
    return call.with_changes(args=args)
