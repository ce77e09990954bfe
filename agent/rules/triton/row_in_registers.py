"""Read a row once and keep it in registers, where passes over its blocks read it again."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
import libcst.matchers as m

from ...analysis.applicability import need, require
from ...analysis.change import Change, Rewritten
from ...analysis.source import code, expression, fresh, names, statements
from ...analysis.triton import (
    Launch,
    TritonKernel,
    Values,
    axes_of,
    calls_in,
    choice,
    passes_of,
    relaunched,
    texts,
    unmasked_where_whole,
    uses_only_here,
)
from ..rule import rule

WARPS = (1, 2, 4, 8, 16, 32)
PER_WARP = 2048
"""Elements of a row that a warp holds: 64 registers of each of its threads."""
LARGEST = 32768
"""With more, the threads of a program have more registers in use than the register file has, or spill."""
SUFFIX = "one_read"
_LOAD = m.Call(func=m.Attribute(m.Name("tl"), m.Name("load")))


@rule(
    "row-in-registers",
    category="memory",
    work="streams",
    why="the row comes from memory once instead of once per pass",
    reads=TritonKernel.read,
)
def row_in_registers(kernel: TritonKernel, change: Change) -> Rewritten:
    """Add a form of the function whose one block holds the row, and launch it where registers suffice.

    Needs passes over one row (loops from zero to the same extent by the same block, which only the launch sets), in
    which two loads read the same addresses under the same mask with no store between them. Every access masks the
    row's end, or the row is a power of two, so that a block as large as the row is right.
    """
    warps = change.constant("ROW_WARPS", WARPS, 16)
    change.each(kernel.launched_once(), lambda launch, change: _add_form(kernel, launch, change, warps))
    return change.rewritten("kept the row in registers between the passes over it")


def _add_form(kernel: TritonKernel, launch: Launch, change: Change, warps: str) -> None:
    function = launch.function
    require(launch.stands_alone, "the launch is no statement of its own")
    passes = need(passes_of(function), "no passes over one row by one block")
    name = f"{function.name}_{SUFFIX}"
    change.require_free(name)
    require(uses_only_here(kernel, launch, passes.block), f"more than the launch depends on {passes.block}")
    extent = need(passes.extent_on_host(texts(launch)), "the host cannot compute the row's length")
    others = need(axes_of(launch, leave_out={passes.block}), "the host does not know the size of a block")
    length = passes.length
    require(length is None or 0 < length <= LARGEST, f"a row of {length} elements does not fit the registers")
    body = need(_with_one_read(list(passes.straight()), set(change.taken)), "no two passes load the same")
    is_whole = length is not None and length & (length - 1) == 0
    require(is_whole or passes.masks_its_end(), "an access does not mask the row's end")
    new = function.node.with_changes(name=cst.Name(name), body=function.node.body.with_changes(body=body))
    whole = fresh("WHOLE_ROW", {*function.parameters, *names(function.node)})
    unmasked = unmasked_where_whole(new, passes.block, passes.extent_text, whole)

    row = f"triton.next_power_of_2({extent})" if length is None else str(1 << (length - 1).bit_length())
    block = change.fresh("row_block")
    held = " * ".join([block, *others])
    # Eight elements per thread at least: fewer leave warps with little to do.
    values = {passes.block: block, "num_warps": f"min({warps}, max(1, {held} // 256))"}
    if unmasked is not None:
        new, values[whole] = unmasked, f"{block} == {extent}"
    call = relaunched(launch, name, values)
    host = f"{block} = {row}\n" + choice(f"0 < {held} <= min({warps} * {PER_WARP}, {LARGEST})", call, launch.node)
    change.add_functions(function.node, [new])
    change.put_statements(launch.statement, host)


def _with_one_read(body: Sequence[cst.BaseStatement], taken: set[str]) -> list[cst.BaseStatement] | None:
    """Return straight code without its repeated loads; None where it has none."""
    values = Values()
    body = _without_repetition(body)
    found: dict[int, list[tuple[int, cst.Call]]] = {}
    bound: dict[int, str] = {}
    for position, statement in enumerate(body):
        if isinstance(statement, cst.SimpleStatementLine):
            for call in calls_in(statement, "load"):
                number = values.of(call)
                if values.key(number)[0] == "load":
                    found.setdefault(number, []).append((position, call))
        values.run(statement)
        for number in found.keys() & bound.keys():
            if values.names.get(bound[number]) != number:  # the name has been given another value
                bound[number] = ""
        for name, number in values.names.items():
            if number in found:
                bound.setdefault(number, name if found[number][0][0] == position else "")
    new: list[list[cst.BaseStatement]] = [[item] for item in body]
    repeated = {number: places for number, places in found.items() if len(places) > 1}
    for number, places in repeated.items():
        name = bound.get(number) or fresh("row", taken)
        for index, (position, call) in enumerate(places):
            statement = cst.ensure_type(new[position].pop(), cst.SimpleStatementLine)
            if index > 0 or not _assigns(statement, name):
                if index == 0:
                    kept = statements(f"{name} = {code(call)}\n")[0]
                    new[position].append(kept.with_changes(leading_lines=statement.leading_lines))
                    statement = statement.with_changes(leading_lines=[])
                replaced = statement.deep_replace(call, expression(name))
                statement = cst.ensure_type(replaced, cst.SimpleStatementLine)
            if code(statement).strip() != f"{name} = {name}":
                new[position].append(statement)
    return [item for part in new for item in part] if repeated else None


def _without_repetition(body: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
    """Return straight code without assignments of what a name has already."""
    values = Values()
    kept: list[cst.BaseStatement] = []
    for statement in body:
        match statement:
            case cst.SimpleStatementLine(body=[cst.Assign(targets=[cst.AssignTarget(cst.Name(name))], value=value)]):
                again = values.names.get(name) == values.of(value) and not calls_in(statement, "load")
            case _:
                again = False
        values.run(statement)
        if not again:
            kept.append(statement)
    return kept


def _assigns(statement: cst.BaseStatement, name: str) -> bool:
    return m.matches(statement, m.SimpleStatementLine([m.Assign([m.AssignTarget(m.Name(name))], value=_LOAD)]))
