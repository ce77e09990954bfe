"""Read a row once and keep it in registers, where passes over its blocks read it again."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import libcst as cst

from ...analysis.source import code, fresh, names, put, statements
from ...analysis.template import matches
from ...analysis.tree import calls_in, edited, only_line, with_block
from ...analysis.triton import Launch, TritonKernel, ValueNumbers, axes_of, passes_of, unmasked_where_whole
from ..rule import Change, Rewritten, need, require, rule

WARPS = (1, 2, 4, 8, 16, 32)
PER_WARP = 2048
"""Elements of a row that a warp holds: 64 registers of each of its threads."""
LARGEST = 32768
"""With more, the threads of a program have more registers in use than the register file has, or spill."""
SUFFIX = "one_read"


@rule("memory", "streams", TritonKernel.read).because("the row comes from memory once instead of once per pass")
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
    launch.require_alone()
    passes = passes_of(function)
    name = f"{function.name}_{SUFFIX}"
    change.require_free(name)
    require(kernel.uses_only_here(launch, passes.block), f"more than the launch depends on {passes.block}")
    extent = need(passes.values.text(passes.extent, launch.texts), "the host cannot compute the row's length")
    others = need(axes_of(launch, leave_out={passes.block}), "the host does not know the size of a block")
    length = passes.values.constant(passes.extent)
    require(length is None or 0 < length <= LARGEST, f"a row of {length} elements does not fit the registers")
    body = need(_with_one_read(list(passes.straight()), set(change.taken)), "no two passes load the same")
    is_whole = length is not None and length & (length - 1) == 0
    require(is_whole or passes.masks_its_end(), "an access does not mask the row's end")
    new = with_block(function.node.with_changes(name=cst.Name(name)), body)
    whole = fresh("WHOLE_ROW", {*function.parameters, *names(function.node)})
    unmasked = unmasked_where_whole(new, passes.block, passes.extent_text, whole)
    row = f"triton.next_power_of_2({extent})" if length is None else str(1 << (length - 1).bit_length())
    block = change.fresh("row_block")
    held = " * ".join([block, *others])
    # Eight elements per thread at least: fewer leave warps with little to do.
    values = {passes.block: block, "num_warps": f"min({warps}, max(1, {held} // 256))"}
    if unmasked is not None:
        new, values[whole] = unmasked, f"{block} == {extent}"
    call, present = (textwrap.indent(code(node), "    ") for node in (launch.relaunched(name, values), launch.node))
    fits = f"0 < {held} <= min({warps} * {PER_WARP}, {LARGEST})"
    host = f"{block} = {row}\nif {fits}:\n{call}\nelse:\n{present}\n"
    change.add_functions(function.node, [new])
    change.put_statements(launch.statement, host)


def _with_one_read(body: Sequence[cst.BaseStatement], taken: set[str]) -> list[cst.BaseStatement] | None:
    """Return straight code without its repeated loads; None where it has none."""
    values = ValueNumbers()
    body = _without_repetition(body)
    found: dict[int, list[tuple[int, cst.Call]]] = {}
    bound: dict[int, str] = {}
    for position, statement in enumerate(body):
        if isinstance(statement, cst.SimpleStatementLine):
            for call in calls_in(statement, "tl.load"):
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
            if index > 0 or not matches(statement, "q_name = tl.load(q__)", name=name):
                if index == 0:
                    kept = statements(f"{name} = {code(call)}\n")[0]
                    new[position].append(kept.with_changes(leading_lines=statement.leading_lines))
                    statement = statement.with_changes(leading_lines=[])
                statement = edited(statement, {call: put(name)})
            if code(statement).strip() != f"{name} = {name}":
                new[position].append(statement)
    return [item for part in new for item in part] if repeated else None


def _without_repetition(body: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
    """Return straight code without assignments of what a name has already."""
    values = ValueNumbers()
    kept: list[cst.BaseStatement] = []
    for statement in body:
        again = False
        match only_line(statement):
            case cst.Assign(targets=[cst.AssignTarget(cst.Name(name))], value=value):
                again = values.names.get(name) == values.of(value) and not calls_in(statement, "tl.load")
        values.run(statement)
        if not again:
            kept.append(statement)
    return kept
