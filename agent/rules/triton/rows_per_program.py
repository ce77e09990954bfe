"""Give each program several short rows, as a block of two axes."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ....core import Parameter, PythonKernel
from ...analysis.edit import Edit, both, declaring, edited, put_statements, with_parameters
from ...analysis.search import find_all
from ...analysis.source import add_constant, code, expression, fresh, names, replace_expression, statements
from ...analysis.triton.blocks import has_products
from ...analysis.triton.function import argument
from ...analysis.triton.kernel import Launch, TritonFile
from ...analysis.triton.launching import regridded, relaunched, stands_alone
from ...analysis.triton.passes import body_of
from ...analysis.triton.values import Values
from ..rule import Machine, Rewritten, with_source

ELEMENTS = (1024, 2048, 4096, 8192, 16384)
_TL = m.Name("tl")
_PROGRAM = m.Call(func=m.Attribute(_TL, m.Name("program_id")), args=[m.Arg(m.Integer("0"))])
_REDUCTION = m.Call(func=m.Attribute(_TL, m.Name("sum") | m.Name("max") | m.Name("min")))
_ACROSS = m.Call(args=[m.Arg(), m.Arg(keyword=m.Name("axis"), value=m.Integer("0"))])
_ACCESS = m.Call(func=m.Attribute(_TL, m.Name("load") | m.Name("store")))
_NEITHER = m.Call(
    func=m.Attribute(
        _TL,
        m.Name(
            m.MatchRegex(
                "num_programs|argm.*|cum.*|associative_scan|reduce|sort|reshape|view|trans|dot|atomic.*|join|flip"
            )
        ),
    )
)


@dataclass(frozen=True)
class RowsPerProgram:
    """Compute as many rows in a program as make up a number of elements, if one row is shorter.

    Needs a function without loops and branches whose only block is a row, at `tl.program_id(0)` of a grid of one axis,
    with sums, maxima or minima across the row. What depends on the program becomes a column of rows, what depends on
    the lane a row of columns; rows behind the last are masked.
    """

    name = "rows-per-program"
    category = "parallelism"
    work = "streams"
    why = "a short row leaves most lanes of a program idle, and programs cost more than the rows"

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten | None:
        """Return the kernel with blocks of rows, or None where no function has this form."""
        file = TritonFile.read(kernel)
        if file is None:
            return None
        elements = fresh("PROGRAM_ELEMENTS", file.taken)
        edits: dict[cst.CSTNode, Edit] = {}
        for launch in file.launched_once():
            block = _row(launch)
            if block is None or launch.function.node in edits or not stands_alone(launch):
                continue
            local = {*launch.function.parameters, *names(launch.function.node)}
            each, rows, count = (fresh(name, local) for name in ("ROWS", "rows", "n_rows"))
            edits[launch.function.node] = _two_axes(launch, block, each, rows, count)
            edits[launch.statement] = put_statements(_host(launch, block, each, count, elements, file.taken))
        if not edits:
            return None
        parameters = (Parameter(elements, ELEMENTS, 4096),)
        module = declaring(kernel, add_constant(edited(file.module, edits), elements, 4096), parameters)
        return Rewritten(with_source(kernel, module), "gave each program several short rows", parameters)


def _row(launch: Launch) -> str | None:
    """Return the parameter that is the row's block."""
    function, node = launch.function, launch.function.node
    sizes = {code(call.args[-1].value) for call in function.calls("arange")}
    reductions = find_all(node, _REDUCTION)
    if len(sizes) != 1 or launch.grid is None or len(launch.grid) != 1 or not reductions or has_products(launch):
        return None
    (block,) = sizes
    programs = find_all(node, m.Call(func=m.Attribute(_TL, m.Name("program_id"))))
    other = find_all(node, _NEITHER | m.For() | m.While() | m.If() | m.Return() | m.Subscript())
    helpers = find_all(node, m.Call(func=m.Name()))
    whole = all(m.matches(one, _ACROSS) for one in reductions) and all(m.matches(one, _PROGRAM) for one in programs)
    if block not in function.constexprs or block not in launch.arguments or not programs or not whole:
        return None
    plain = all(code(call.func) in ("float", "int", "min", "max") for call in helpers if isinstance(call, cst.Call))
    return block if plain and not other and isinstance(launch.arguments[block], cst.Name) else None


def _host(launch: Launch, block: str, each: str, count: str, elements: str, taken: set[str]) -> str:
    grid = code(launch.grid[0]) if launch.grid else ""
    size = code(launch.arguments[block])
    rows = fresh("rows_each", taken)
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
    moving: list[cst.Call] = []
    for statement in body_of(function.node):
        for call in find_all(statement, _ACCESS):
            call = cst.ensure_type(call, cst.Call)
            pointer = argument(call, "pointer", 0)
            if pointer is not None and program in values.parts(values.of(pointer)):
                moving.append(call)
        values.run(statement)
    edits: dict[cst.CSTNode, Edit] = {call: lambda node: _masked(node, f"{rows} < {count}") for call in moving}
    for call in function.calls("arange"):
        edits[call] = lambda node: expression(f"{code(node)}[None, :]")
    for call in find_all(function.node, _PROGRAM):
        edits[call] = lambda _: expression(rows)
    for call in find_all(function.node, _REDUCTION):
        edits[call] = _kept
    for shape in find_all(function.node, m.Tuple(elements=[m.Element(m.Name(block))])):
        edits[shape] = lambda _: expression(f"({each}, {block})")

    def rewrite(node: cst.CSTNode) -> cst.CSTNode:
        changed = cst.ensure_type(edited(cst.Module(body=[function.node]), edits).body[0], cst.FunctionDef)
        first = statements(f"{rows} = (tl.program_id(0) * {each} + tl.arange(0, {each}))[:, None]\n")
        return changed.with_changes(body=changed.body.with_changes(body=[*first, *changed.body.body]))

    added = both(with_parameters([count], constexpr=False), with_parameters([each]))
    return both(rewrite, added)


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
        return call.deep_replace(mask, expression(f"({code(mask)}) & ({condition})"))
    kept = [arg for at, arg in enumerate(call.args) if at != position or arg.keyword is not None]
    new = cst.Arg(expression(condition), cst.Name("mask"))
    plain = [arg for arg in kept if arg.keyword is None]
    named = [arg for arg in kept if arg.keyword is not None and arg.keyword.value != "mask"]
    args = [arg.with_changes(comma=cst.MaybeSentinel.DEFAULT) for arg in (*plain, new, *named)]
    return call.with_changes(args=args)
