"""Split long rows over several programs, where there are fewer rows than multiprocessors."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

import libcst as cst

from ...analysis.change import with_parameters
from ...analysis.source import code, expression, names, replace_expression, statements
from ...analysis.template import match, matches
from ...analysis.tree import Statement, assigned_in, assignment, body_of, calls_in, with_block
from ...analysis.triton import Launch, TritonKernel, multiprocessors_of, of_program, passes_of, variable
from ..rule import Change, Rewritten, require, rule

WAVES = (1, 2, 4, 8)
_HEAD = "row_program = tl.program_id(0) // SPLITS\npart = tl.program_id(0) % SPLITS\n"
_WORDS = ("SPLITS", "split", "part", "row_program")
"""Names of the parts' code, which the function must not use."""


@rule("parallelism", "streams", TritonKernel.read).because(
    "with fewer rows than multiprocessors, some of them do nothing"
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
        tensor = launch.tensor()
        launch.require_alone()
        require(launch.knows_program_zero_alone, "the grid is not of one axis that the function knows alone")
        functions = _functions(launch)
        change.require_free(functions[0].name.value)
        change.add_functions(launch.function.node, functions)
        wanted = f"{each} * {host}({tensor}.device)"
        change.put_statements(launch.statement, _host(launch, functions, wanted, tensor, change))

    change.first(kernel.launched_once(), split)
    return change.rewritten("split the rows over several programs")


def _host(launch: Launch, functions: Sequence[cst.FunctionDef], wanted: str, tensor: str, change: Change) -> str:
    (grid,) = launch.axes
    rows, splits = change.fresh("n_rows"), change.fresh("splits")
    partials = {_partial(number): change.fresh(f"partial_{number}") for number in range(1, len(functions))}
    empty = f"torch.empty(({rows} * {splits},), device={tensor}.device, dtype=torch.float32)"
    lines = [f"{name} = {empty}" for name in partials.values()]
    for function in functions:
        call = launch.relaunched(function.name.value, {**partials, "SPLITS": splits}, f"({rows} * {splits},)")
        lines.append(code(call))
    return (
        f"{rows} = {grid}\n"
        f"{splits} = triton.next_power_of_2(max(1, {wanted} // max(1, {rows})))\n"
        f"if {splits} > 1:\n" + textwrap.indent("\n".join(lines), "    ") + f"\nelse:\n    {code(launch.node)}\n"
    )


def _partial(number: int) -> str:
    return f"partial_{number}_ptr"


def _functions(launch: Launch) -> list[cst.FunctionDef]:
    node = launch.function.node
    passes, body = passes_of(launch.function), body_of(node)
    require(len(passes.loops) > 1, "there is one pass over the row")
    require(body[-1] is passes.loops[-1], "the function goes on after the last pass")
    require(not names(node) & {*_WORDS}, "the function uses a name of the parts' code")
    sums: dict[str, str] = {}
    before: list[Statement] = []
    found: list[cst.FunctionDef] = []
    start = 0
    for number, loop in enumerate(passes.loops, 1):
        end = body.index(loop)
        before += [_resolved(statement, sums) for statement in body[start:end]]
        inside = [_resolved(item, sums) for item in body_of(loop)]
        start = end + 1
        is_last = number == len(passes.loops)
        stores = any(calls_in(item, "tl.store", "tl.atomic_*") for item in (*before, *inside))
        require(stores == is_last, "not the last pass alone stores")
        summed = None if is_last else _accumulator(before, inside, passes.block)
        require(_knows_its_names(launch, before, inside, loop, summed), "a pass reads what another one or a step left")
        lines = [*statements(_HEAD), *before, *_of_part(loop, inside, passes.block)]
        if summed is not None:
            lines += statements(f"tl.store({_partial(number)} + tl.program_id(0), tl.sum({summed}, axis=0))\n")
            place = f"{_partial(number)} + row_program * SPLITS + tl.arange(0, SPLITS)"
            sums[summed] = f"tl.sum(tl.load({place}), axis=0)"
        new = with_block(node.with_changes(name=cst.Name(f"{launch.function.name}_pass_{number}")), lines)
        found.append(with_parameters([_partial(other) for other in range(1, len(passes.loops))], ["SPLITS"])(new))
    return found


def _resolved(statement: Statement, sums: Mapping[str, str]) -> Statement:
    """Return a statement of the row's program, with the sums of earlier passes from their parts."""
    node = of_program(statement, "row_program")
    for name, text in sums.items():
        node = replace_expression(node, f"tl.sum({name}, axis=0)", text)
    return node


def _accumulator(before: Sequence[Statement], inside: Sequence[Statement], block: str) -> str:
    """Return the one name that a pass adds to, which starts as zeros of the block's size. Raises NotApplicableError."""
    updates = [found for item in inside if (found := match("q_name += q_value", item)) is not None]
    added = {found["name"] for found in updates if found["name"].isidentifier()}
    starts = [item for item in before if added & assigned_in(item)]
    require(len(added) == len(starts) == 1, "a pass does not sum into one accumulator")
    (name,) = added
    zeros = (f"q_name = tl.zeros({shape}, dtype=tl.float32)" for shape in ("(q_block,)", "[q_block]"))
    is_zero = matches(starts[0], *zeros, name=name, block=block)
    require(is_zero, "an accumulator does not start as zeros of the block's size")
    return name


def _knows_its_names(
    launch: Launch, before: Sequence[Statement], inside: Sequence[Statement], loop: cst.For, summed: str | None
) -> bool:
    """Return whether no statement reads a name that only another pass, or another step of this one, has given."""
    local = assigned_in(launch.function.node)
    known = {*launch.function.parameters} - local
    carried = {name for item in inside for name in assigned_in(item)} - {summed}
    for statement in [*before, None, *inside]:
        if statement is None:
            known = (known | {variable(loop)}) - carried
            continue
        target, how, value = assignment(statement) or (statement, "", statement)
        read = names(value) if how == "=" and isinstance(target, cst.Name) else names(statement)
        first = {name for name in read & local if name not in known and name not in launch.function.parameters}
        if first or not isinstance(statement, cst.SimpleStatementLine):
            return False
        known |= assigned_in(statement)
    return True


def _of_part(loop: cst.For, inside: Sequence[Statement], block: str) -> list[Statement]:
    """Return the loop over one part of the row: as many blocks as others have, but for the last parts."""
    call = cst.ensure_type(loop.iter, cst.Call)
    extent = code(call.args[1].value)
    bounds = ("part * split", f"tl.minimum((part + 1) * split, {extent})")
    args = [arg.with_changes(value=expression(text)) for arg, text in zip(call.args[:2], bounds, strict=True)]
    first = statements(f"split = tl.cdiv(tl.cdiv({extent}, {block}), SPLITS) * {block}\n")
    changed = with_block(loop.with_changes(iter=call.with_changes(args=[*args, *call.args[2:]])), inside)
    changed = changed.with_changes(leading_lines=[])
    return [first[0].with_changes(leading_lines=loop.leading_lines), changed]
