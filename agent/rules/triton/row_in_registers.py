"""Read a row once and keep it in registers, where passes over its blocks read it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ....core import Parameter, PythonKernel
from ...analysis.edit import Edit, declaring, edited, put_statements
from ...analysis.search import find_all
from ...analysis.source import add_constant, code, expression, fresh, names, statements
from ...analysis.triton.blocks import axes_of
from ...analysis.triton.kernel import Launch, TritonFile
from ...analysis.triton.launching import choice, relaunched, stands_alone, texts, uses_only_here
from ...analysis.triton.passes import passes_of
from ...analysis.triton.values import Values
from ...analysis.triton.whole_rows import unmasked_where_whole
from ..rule import Machine, Rewritten, with_source

WARPS = (1, 2, 4, 8, 16, 32)
PER_WARP = 2048
"""Elements of a row that a warp holds: 64 registers of each of its threads."""
LARGEST = 32768
"""With more, the threads of a program have more registers in use than the register file has, or spill."""
SUFFIX = "one_read"
_LOAD = m.Call(func=m.Attribute(m.Name("tl"), m.Name("load")))


@dataclass(frozen=True)
class RowInRegisters:
    """Add a form of the function whose one block holds the row, and launch it where registers suffice.

    Needs passes over one row (loops from zero to the same extent by the same block, which only the launch sets), in
    which two loads read the same addresses under the same mask with no store between them. Every access masks the
    row's end, or the row is a power of two, so that a block as large as the row is right.
    """

    name = "row-in-registers"
    category = "memory"
    work = "streams"
    why = "the row comes from memory once instead of once per pass"

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten | None:
        """Return the kernel with the second form, or None where no function reads a row twice."""
        file = TritonFile.read(kernel)
        if file is None:
            return None
        warps = fresh("ROW_WARPS", set(file.taken))
        edits: dict[cst.CSTNode, Edit] = {}
        for launch in file.launched_once():
            if edits.keys() & {launch.function.node} or not stands_alone(launch):
                continue
            edits |= _edits(file, launch, warps)
        if not edits:
            return None
        parameters = (Parameter(warps, WARPS, 16),)
        module = declaring(kernel, add_constant(edited(file.module, edits), warps, 16), parameters)
        did = "kept the row in registers between the passes over it"
        return Rewritten(with_source(kernel, module), did, parameters)


def _edits(file: TritonFile, launch: Launch, warps: str) -> dict[cst.CSTNode, Edit]:
    function = launch.function
    passes = passes_of(function)
    name = f"{function.name}_{SUFFIX}"
    if passes is None or name in file.taken or not uses_only_here(file, launch, passes.block):
        return {}
    extent = passes.extent_on_host(texts(launch))
    length = passes.length
    others = axes_of(launch, leave_out={passes.block})
    if extent is None or others is None or (length is not None and not 0 < length <= LARGEST):
        return {}
    is_whole = length is not None and length & (length - 1) == 0
    body = _with_one_read(list(passes.straight()), set(file.taken))
    if body is None or not (is_whole or passes.masks_its_end()):
        return {}
    new = function.node.with_changes(name=cst.Name(name), body=function.node.body.with_changes(body=body))
    whole = fresh("WHOLE_ROW", {*function.parameters, *names(function.node)})
    unmasked = unmasked_where_whole(new, passes.block, passes.extent_text, whole)

    row = f"triton.next_power_of_2({extent})" if length is None else str(1 << (length - 1).bit_length())
    block = fresh("row_block", file.taken)
    held = " * ".join([block, *others])
    # Eight elements per thread at least: fewer leave warps with little to do.
    values = {passes.block: block, "num_warps": f"min({warps}, max(1, {held} // 256))"}
    if unmasked is not None:
        new, values[whole] = unmasked, f"{block} == {extent}"
    call = relaunched(launch, name, values)
    host = f"{block} = {row}\n" + choice(f"0 < {held} <= min({warps} * {PER_WARP}, {LARGEST})", call, launch.node)
    first = new.with_changes(leading_lines=[cst.EmptyLine(indent=False), cst.EmptyLine(indent=False)])
    return {
        function.node: lambda node: cst.FlattenSentinel([cst.ensure_type(node, cst.FunctionDef), first]),
        launch.statement: put_statements(host),
    }


def _with_one_read(body: Sequence[cst.BaseStatement], taken: set[str]) -> list[cst.BaseStatement] | None:
    """Return straight code without its repeated loads; None where it has none."""
    values = Values()
    body = _without_repetition(body)
    found: dict[int, list[tuple[int, cst.Call]]] = {}
    bound: dict[int, str] = {}
    for position, statement in enumerate(body):
        if isinstance(statement, cst.SimpleStatementLine):
            for call in find_all(statement, _LOAD):
                number = values.of(cst.ensure_type(call, cst.Call))
                if values.key(number)[0] == "load":
                    found.setdefault(number, []).append((position, cst.ensure_type(call, cst.Call)))
        values.run(statement)
        for number in found.keys() & bound.keys():
            if values.names.get(bound[number]) != number:  # the name has been given another value
                bound[number] = ""
        for name, number in values.names.items():
            if number in found:
                bound.setdefault(number, name if found[number][0][0] == position else "")
    new: list[list[cst.BaseStatement]] = [[one] for one in body]
    repeated = {number: places for number, places in found.items() if len(places) > 1}
    for number, places in repeated.items():
        name = bound.get(number) or fresh("row", taken)
        for index, (position, call) in enumerate(places):
            statement = cst.ensure_type(new[position].pop(), cst.SimpleStatementLine)
            is_first = index == 0
            if not (is_first and _assigns(statement, name)):
                if is_first:
                    kept = statements(f"{name} = {code(call)}\n")[0]
                    new[position].append(kept.with_changes(leading_lines=statement.leading_lines))
                    statement = statement.with_changes(leading_lines=[])
                replaced = statement.deep_replace(call, expression(name))
                statement = cst.ensure_type(replaced, cst.SimpleStatementLine)
            if code(statement).strip() != f"{name} = {name}":
                new[position].append(statement)
    return [one for part in new for one in part] if repeated else None


def _without_repetition(body: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
    """Return straight code without assignments of what a name has already."""
    values = Values()
    kept: list[cst.BaseStatement] = []
    for statement in body:
        match statement:
            case cst.SimpleStatementLine(body=[cst.Assign(targets=[cst.AssignTarget(cst.Name(name))], value=value)]):
                again = values.names.get(name) == values.of(value) and not find_all(statement, _LOAD)
            case _:
                again = False
        values.run(statement)
        if not again:
            kept.append(statement)
    return kept


def _assigns(statement: cst.BaseStatement, name: str) -> bool:
    return m.matches(statement, m.SimpleStatementLine([m.Assign([m.AssignTarget(m.Name(name))], value=_LOAD)]))
