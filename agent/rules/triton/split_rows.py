"""Split long rows over several programs, where there are fewer rows than multiprocessors."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ....core import Parameter, PythonKernel
from ...analysis.edit import Edit, both, declaring, edited, put_statements, with_parameters
from ...analysis.search import find_all
from ...analysis.source import add_constant, code, expression, fresh, names, replace_expression, statements
from ...analysis.triton.kernel import Launch, TritonFile
from ...analysis.triton.launching import regridded, relaunched, stands_alone
from ...analysis.triton.passes import body_of, passes_of, variable
from ...analysis.triton.programs import (
    knows_program_zero_alone,
    multiprocessors_of,
    of_program,
    tensor_of,
    with_multiprocessors,
)
from ...analysis.triton.values import assigned_in
from ..rule import Machine, Rewritten, with_source

WAVES = (1, 2, 4, 8)
_STORE = m.Call(func=m.Attribute(m.Name("tl"), m.Name(m.MatchRegex("store|atomic_.*"))))
_ADDED = m.SimpleStatementLine([m.AugAssign(target=m.Name(), operator=m.AddAssign())])
_PLAIN = m.SimpleStatementLine([m.Assign(targets=[m.AssignTarget(m.Name())])])
_HEAD = "row_program = tl.program_id(0) // SPLITS\npart = tl.program_id(0) % SPLITS\n"
_WORDS = ("SPLITS", "split", "part", "row_program")
"""Names of the parts' code, which the function must not use."""


@dataclass(frozen=True)
class SplitRows:
    """Turn a function of several passes into one function per pass, whose programs each take a part of a row.

    Needs passes of which all but the last sum into one accumulator, which starts as zeros of the block's size and is
    used in `tl.sum` alone; the last stores and ends the function. A pass leaves one partial sum per part, and those
    after it add these: only the order of the sums changes. Rows are split where they are too few for the device.
    """

    name = "split-rows"
    category = "parallelism"
    work = "streams"
    why = "with fewer rows than multiprocessors, some of them do nothing"

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten | None:
        """Return the kernel with split rows, or None where no function has this form."""
        file = TritonFile.read(kernel)
        if file is None or "torch" not in file.taken:
            return None
        each = fresh("SPLIT_PROGRAMS", file.taken)
        host, is_there = multiprocessors_of(file)
        for launch in file.launched_once():
            tensor = tensor_of(launch)
            if tensor is None or not stands_alone(launch) or not knows_program_zero_alone(launch):
                continue
            functions = _functions(launch)
            if functions is None or functions[0].name.value in file.taken:
                continue
            wanted = f"{each} * {host}({tensor}.device)"
            edits: dict[cst.CSTNode, Edit] = {
                launch.function.node: _followed_by(functions),
                launch.statement: put_statements(_host(launch, functions, wanted, tensor, file.taken)),
            }
            parameters = (Parameter(each, WAVES, 4),)
            module = edited(file.module, edits)
            if not is_there:
                module = with_multiprocessors(module, host)
            module = declaring(kernel, add_constant(module, each, 4), parameters)
            return Rewritten(with_source(kernel, module), "split the rows over several programs", parameters)
        return None


def _followed_by(functions: Sequence[cst.FunctionDef]) -> Edit:
    lines = [cst.EmptyLine(indent=False), cst.EmptyLine(indent=False)]
    added = [one.with_changes(leading_lines=lines) for one in functions]
    return lambda node: cst.FlattenSentinel([cst.ensure_type(node, cst.FunctionDef), *added])


def _host(launch: Launch, functions: Sequence[cst.FunctionDef], wanted: str, tensor: str, taken: set[str]) -> str:
    """Write the launches of the parts, and the one as it was for many rows."""
    grid = code(launch.grid[0]) if launch.grid else ""
    rows, splits = fresh("n_rows", taken), fresh("splits", taken)
    partials = {_partial(number): fresh(f"partial_{number}", taken) for number in range(1, len(functions))}
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


def _functions(launch: Launch) -> list[cst.FunctionDef] | None:
    """Return a function for each pass; None where a pass or what stands between two is of another form."""
    passes, node = passes_of(launch.function), launch.function.node
    body = body_of(node)
    if passes is None or len(passes.loops) < 2 or body[-1] is not passes.loops[-1] or names(node) & {*_WORDS}:
        return None
    sums: dict[str, str] = {}
    before: list[cst.BaseStatement] = []
    found: list[cst.FunctionDef] = []
    start = 0
    for number, loop in enumerate(passes.loops, 1):
        end = body.index(loop)
        before += [_resolved(one, sums) for one in body[start:end]]
        inside = [_resolved(one, sums) for one in body_of(loop)]
        start = end + 1
        is_last = number == len(passes.loops)
        stores = [bool(find_all(one, _STORE)) for one in (*before, *inside)]
        summed = None if is_last else _accumulator(before, inside, passes.block)
        if any(stores) != is_last or (summed is None) != is_last:
            return None
        if not _knows_its_names(launch, before, inside, loop, summed):
            return None
        lines = [*statements(_HEAD), *before, *_of_part(loop, inside, passes.block)]
        if summed is not None:
            lines += statements(f"tl.store({_partial(number)} + tl.program_id(0), tl.sum({summed}, axis=0))\n")
            place = f"{_partial(number)} + row_program * SPLITS + tl.arange(0, SPLITS)"
            sums[summed] = f"tl.sum(tl.load({place}), axis=0)"
        found.append(_named(node, f"{launch.function.name}_pass_{number}", lines, len(passes.loops)))
    return found


def _resolved(statement: cst.BaseStatement, sums: Mapping[str, str]) -> cst.BaseStatement:
    """Return a statement of the row's program, with the sums of earlier passes from their parts."""
    node: cst.CSTNode = of_program(statement, "row_program")
    for name, text in sums.items():
        node = replace_expression(node, f"tl.sum({name}, axis=0)", text)
    assert isinstance(node, cst.BaseStatement)
    return node


def _accumulator(before: Sequence[cst.BaseStatement], inside: Sequence[cst.BaseStatement], block: str) -> str | None:
    """Return the one name that a pass adds to, which starts as zeros of the block's size."""
    added = {name for one in inside if m.matches(one, _ADDED) for name in assigned_in(one)}
    zeros = {f"{name} = tl.zeros(({block},), dtype=tl.float32)" for name in added}
    zeros |= {f"{name} = tl.zeros([{block}], dtype=tl.float32)" for name in added}
    starts = [one for one in before if added & assigned_in(one)]
    if len(added) != 1 or len(starts) != 1:
        return None
    line = code(cst.ensure_type(starts[0], cst.SimpleStatementLine).with_changes(leading_lines=[]))
    return added.pop() if line.strip() in zeros else None


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
    carried = {name for one in inside for name in assigned_in(one)} - {summed}
    for statement in [*before, None, *inside]:
        if statement is None:
            known = (known | {variable(loop)}) - carried
            continue
        is_plain = m.matches(statement, _PLAIN)
        assigned = assigned_in(statement)
        given = cst.ensure_type(statement, cst.SimpleStatementLine).body[0] if is_plain else statement
        read = names(given.value) if isinstance(given, cst.Assign) else names(statement)
        first = {name for name in read & local if name not in known and name not in launch.function.parameters}
        if first or not isinstance(statement, cst.SimpleStatementLine):
            return False
        known |= assigned
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
