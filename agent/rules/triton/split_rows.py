"""Split long rows over several programs, where there are fewer rows than multiprocessors."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

import libcst as cst
import libcst.matchers as m

from ...analysis.applicability import need, require
from ...analysis.change import Change, Rewritten
from ...analysis.edit import both, with_parameters
from ...analysis.search import find_all
from ...analysis.source import code, expression, names, replace_expression, statements
from ...analysis.template import match
from ...analysis.triton import (
    Launch,
    TritonKernel,
    assigned_in,
    body_of,
    knows_program_zero_alone,
    multiprocessors_of,
    of_program,
    passes_of,
    regridded,
    relaunched,
    tensor_of,
    variable,
)
from ..rule import rule

WAVES = (1, 2, 4, 8)
_STORE = m.Call(func=m.Attribute(m.Name("tl"), m.Name(m.MatchRegex("store|atomic_.*"))))
_ADDED = m.SimpleStatementLine([m.AugAssign(target=m.Name(), operator=m.AddAssign())])
_PLAIN = m.SimpleStatementLine([m.Assign(targets=[m.AssignTarget(m.Name())])])
_HEAD = "row_program = tl.program_id(0) // SPLITS\npart = tl.program_id(0) % SPLITS\n"
_WORDS = ("SPLITS", "split", "part", "row_program")
"""Names of the parts' code, which the function must not use."""


@rule(
    "split-rows",
    category="parallelism",
    work="streams",
    why="with fewer rows than multiprocessors, some of them do nothing",
    reads=TritonKernel.read,
)
def split_rows(kernel: TritonKernel, change: Change) -> Rewritten:
    """Turn a function of several passes into one function per pass, whose programs each take a part of a row.

    Needs passes of which all but the last sum into one accumulator, which starts as zeros of the block's size and is
    used in `tl.sum` alone; the last stores and ends the function. A pass leaves one partial sum per part, and those
    after it add these: only the order of the sums changes. Rows are split where they are too few for the device.
    """
    require("torch" in change.taken, "the file does not import torch")
    each = change.constant("SPLIT_PROGRAMS", WAVES, 4)
    host = multiprocessors_of(kernel, change)

    def split(launch: Launch, change: Change) -> None:
        tensor = need(tensor_of(launch), "no name of the host is a tensor that the function loads or stores")
        require(launch.stands_alone, "the launch is no statement of its own")
        require(knows_program_zero_alone(launch), "the grid is not of one axis that the function knows alone")
        functions = _functions(launch)
        change.require_free(functions[0].name.value)
        change.add_functions(launch.function.node, functions)
        wanted = f"{each} * {host}({tensor}.device)"
        change.put_statements(launch.statement, _host(launch, functions, wanted, tensor, change))

    change.first(kernel.launched_once(), split)
    return change.rewritten("split the rows over several programs")


def _host(launch: Launch, functions: Sequence[cst.FunctionDef], wanted: str, tensor: str, change: Change) -> str:
    """Write the launches of the parts, and the one as it was for many rows."""
    grid = code(launch.grid[0]) if launch.grid else ""
    rows, splits = change.fresh("n_rows"), change.fresh("splits")
    partials = {_partial(number): change.fresh(f"partial_{number}") for number in range(1, len(functions))}
    empty = f"torch.empty(({rows} * {splits},), device={tensor}.device, dtype=torch.float32)"
    lines = [f"{name} = {empty}" for name in partials.values()]
    for function in functions:
        call = relaunched(launch, function.name.value, {**partials, "SPLITS": splits})
        lines.append(code(regridded(call, f"({rows} * {splits},)")))
    return (
        f"{rows} = {grid}\n"
        f"{splits} = triton.next_power_of_2(max(1, {wanted} // max(1, {rows})))\n"
        f"if {splits} > 1:\n" + textwrap.indent("\n".join(lines), "    ") + f"\nelse:\n    {code(launch.node)}\n"
    )


def _partial(number: int) -> str:
    return f"partial_{number}_ptr"


def _functions(launch: Launch) -> list[cst.FunctionDef]:
    """Return a function for each pass. Raises NotApplicable."""
    node = launch.function.node
    passes, body = need(passes_of(launch.function), "no passes over one row by one block"), body_of(node)
    require(len(passes.loops) > 1, "there is one pass over the row")
    require(body[-1] is passes.loops[-1], "the function goes on after the last pass")
    require(not names(node) & {*_WORDS}, "the function uses a name of the parts' code")
    sums: dict[str, str] = {}
    before: list[cst.BaseStatement] = []
    found: list[cst.FunctionDef] = []
    start = 0
    for number, loop in enumerate(passes.loops, 1):
        end = body.index(loop)
        before += [_resolved(statement, sums) for statement in body[start:end]]
        inside = [_resolved(item, sums) for item in body_of(loop)]
        start = end + 1
        is_last = number == len(passes.loops)
        stores = any(find_all(item, _STORE) for item in (*before, *inside))
        require(stores == is_last, "not the last pass alone stores")
        summed = None if is_last else _accumulator(before, inside, passes.block)
        require(_knows_its_names(launch, before, inside, loop, summed), "a pass reads what another one or a step left")
        lines = [*statements(_HEAD), *before, *_of_part(loop, inside, passes.block)]
        if summed is not None:
            lines += statements(f"tl.store({_partial(number)} + tl.program_id(0), tl.sum({summed}, axis=0))\n")
            place = f"{_partial(number)} + row_program * SPLITS + tl.arange(0, SPLITS)"
            sums[summed] = f"tl.sum(tl.load({place}), axis=0)"
        found.append(_named(node, f"{launch.function.name}_pass_{number}", lines, len(passes.loops)))
    return found


def _resolved(statement: cst.BaseStatement, sums: Mapping[str, str]) -> cst.BaseStatement:
    """Return a statement of the row's program, with the sums of earlier passes from their parts."""
    node = of_program(statement, "row_program")
    for name, text in sums.items():
        node = replace_expression(node, f"tl.sum({name}, axis=0)", text)
    return node


def _accumulator(before: Sequence[cst.BaseStatement], inside: Sequence[cst.BaseStatement], block: str) -> str:
    """Return the one name that a pass adds to, which starts as zeros of the block's size. Raises NotApplicable."""
    added = {name for item in inside if m.matches(item, _ADDED) for name in assigned_in(item)}
    starts = [item for item in before if added & assigned_in(item)]
    require(len(added) == len(starts) == 1, "a pass does not sum into one accumulator")
    (name,) = added
    zeros = (f"{name} = tl.zeros({shape}, dtype=tl.float32)" for shape in (f"({block},)", f"[{block}]"))
    is_zero = any(match(zero, starts[0]) is not None for zero in zeros)
    require(is_zero, "an accumulator does not start as zeros of the block's size")
    return name


def _knows_its_names(
    launch: Launch,
    before: Sequence[cst.BaseStatement],
    inside: Sequence[cst.BaseStatement],
    loop: cst.For,
    summed: str | None,
) -> bool:
    """Return whether no statement reads a name that only another pass, or another step of this one, has given."""
    local = assigned_in(launch.function.node)
    known = {*launch.function.parameters} - local
    carried = {name for item in inside for name in assigned_in(item)} - {summed}
    for statement in [*before, None, *inside]:
        if statement is None:
            known = (known | {variable(loop)}) - carried
            continue
        is_plain = m.matches(statement, _PLAIN)
        given = cst.ensure_type(statement, cst.SimpleStatementLine).body[0] if is_plain else statement
        read = names(given.value) if isinstance(given, cst.Assign) else names(statement)
        first = {name for name in read & local if name not in known and name not in launch.function.parameters}
        if first or not isinstance(statement, cst.SimpleStatementLine):
            return False
        known |= assigned_in(statement)
    return True


def _of_part(loop: cst.For, inside: Sequence[cst.BaseStatement], block: str) -> list[cst.BaseStatement]:
    """Return the loop over one part of the row: as many blocks as others have, but for the last parts."""
    call = cst.ensure_type(loop.iter, cst.Call)
    extent = code(call.args[1].value)
    bounds = ("part * split", f"tl.minimum((part + 1) * split, {extent})")
    args = [arg.with_changes(value=expression(text)) for arg, text in zip(call.args[:2], bounds, strict=True)]
    first = statements(f"split = tl.cdiv(tl.cdiv({extent}, {block}), SPLITS) * {block}\n")
    changed = loop.with_changes(
        iter=call.with_changes(args=[*args, *call.args[2:]]),
        body=loop.body.with_changes(body=list(inside)),
        leading_lines=[],
    )
    return [first[0].with_changes(leading_lines=loop.leading_lines), changed]


def _named(node: cst.FunctionDef, name: str, lines: Sequence[cst.BaseStatement], passes: int) -> cst.FunctionDef:
    pointers = [_partial(number) for number in range(1, passes)]
    added = both(with_parameters(pointers, constexpr=False), with_parameters(["SPLITS"]))(node)
    function = cst.ensure_type(added, cst.FunctionDef)
    return function.with_changes(name=cst.Name(name), body=function.body.with_changes(body=list(lines)))
