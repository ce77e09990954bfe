"""Start as many programs as stay on the device, each for many rows, with the next row's loads under way."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
import libcst.matchers as m

from ...analysis.applicability import need, require
from ...analysis.change import Change, Rewritten
from ...analysis.edit import Edit
from ...analysis.search import find_all
from ...analysis.source import code, fresh, names, statements, substitute
from ...analysis.triton import (
    Function,
    Launch,
    TritonKernel,
    assigned_in,
    body_of,
    has_products,
    knows_program_zero_alone,
    multiprocessors_of,
    of_program,
    regridded,
    relaunched,
    tensor_of,
)
from ..rule import rule

PER_MULTIPROCESSOR = (1, 2, 4, 8, 16)
STAGES = (1, 2, 3, 4)
_CONSTEXPR = m.SimpleStatementLine([m.AnnAssign(target=m.Name())])
_ONE = m.Call(args=[m.Arg(m.Integer("1")), m.Arg()]) | m.Integer("1")
_BRANCHES = m.For() | m.While() | m.If() | m.Return() | m.Call(func=m.Attribute(attr=m.Name(m.MatchRegex("atomic_.*"))))


@rule(
    "persistent-rows",
    category="memory",
    work="streams",
    why="a program computes one row while the next one's loads are under way, and no wave of programs ends half empty",
    reads=TritonKernel.read,
)
def persistent_rows(kernel: TritonKernel, change: Change) -> Rewritten:
    """Let each program of a straight function take the work of several in turn, in a loop with stages.

    Needs a grid of one axis, which the function knows only by `tl.program_id(0)`, and a body without loops, branches
    and products. What a program assigns to a parameter gets a name of its own, so no step sees the one before.
    """
    require("torch" in change.taken, "the file does not import torch")
    each = change.constant("PROGRAMS_EACH", PER_MULTIPROCESSOR, 4)
    stages = change.constant("ROW_STAGES", STAGES, 2)
    count_multiprocessors = multiprocessors_of(kernel, change)

    def make_persistent(launch: Launch, change: Change) -> None:
        tensor = need(tensor_of(launch), "no name of the host is a tensor that the function loads or stores")
        _require_straight(launch)
        grid = code(launch.grid[0]) if launch.grid else ""
        count = fresh("n_programs", {*launch.function.parameters, *names(launch.function.node)})
        change.edit(launch.function.node, _persistent(launch.function, count, stages))
        change.add_parameters(launch.function.node, [count], [stages])
        programs = f"(min({grid}, {each} * {count_multiprocessors}({tensor}.device)),)"
        new = relaunched(launch, launch.function.name, {count: grid, stages: stages})
        change.put(launch.node, regridded(new, programs))

    change.each(kernel.launched_once(), make_persistent)
    return change.rewritten("made the programs persistent")


def _require_straight(launch: Launch) -> None:
    require(knows_program_zero_alone(launch), "the grid is not of one axis that the function knows by its number alone")
    require(not find_all(launch.function.node, _BRANCHES), "the function has loops, branches or atomics")
    require(not has_products(launch), "the function has products")
    require(not m.matches((launch.grid or ())[0], _ONE), "the grid is one program")


def _persistent(function: Function, count: str, stages: str) -> Edit:
    taken = {*function.parameters, *names(function.node)}
    turn, program = fresh("turn", taken), fresh("program", taken)
    body = body_of(function.node)
    constants = [statement for statement in body if m.matches(statement, _CONSTEXPR)]
    moved = [statement for statement in body if statement not in constants]
    own: dict[str, str] = {}
    copies: list[str] = []
    for parameter in function.parameters:
        if any(parameter in assigned_in(item) for item in moved):
            own[parameter] = fresh(f"{parameter}_of_row", taken)
            if _is_read_first(moved, parameter):
                copies.append(f"{own[parameter]} = {parameter}\n")
    steps = f"tl.cdiv({count} - tl.program_id(0), tl.num_programs(0))"
    head = (
        f"for {turn} in tl.range(0, {steps}, num_stages={stages}):\n"
        f"    {program} = tl.program_id(0) + {turn} * tl.num_programs(0)\n" + "".join(f"    {copy}" for copy in copies)
    )

    def rewrite(node: cst.CSTNode) -> cst.CSTNode:
        changed = cst.ensure_type(node, cst.FunctionDef)
        loop = cst.ensure_type(statements(head)[0], cst.For)
        block = cst.ensure_type(loop.body, cst.IndentedBlock)
        replaced = [of_program(substitute(item, own), program) for item in moved]
        loop = loop.with_changes(body=block.with_changes(body=[*block.body, *replaced]))
        return changed.with_changes(body=changed.body.with_changes(body=[*constants, loop]))

    return rewrite


def _is_read_first(body: Sequence[cst.BaseStatement], name: str) -> bool:
    """Return whether the first statement with a name reads it."""
    first = next(statement for statement in body if name in names(statement))
    match first:
        case cst.SimpleStatementLine(body=[cst.Assign(targets=[cst.AssignTarget(cst.Name(target))], value=value)]):
            return target != name or name in names(value)
    return True
