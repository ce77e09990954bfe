"""Start as many programs as stay on the device, each for many rows, with the next row's loads under way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ....core import Parameter, PythonKernel
from ...analysis.edit import Edit, both, declaring, edited, with_parameters
from ...analysis.search import find_all
from ...analysis.source import add_constant, code, fresh, names, statements, substitute
from ...analysis.triton.blocks import has_products
from ...analysis.triton.function import Function
from ...analysis.triton.kernel import Launch, TritonFile
from ...analysis.triton.launching import regridded, relaunched
from ...analysis.triton.passes import body_of
from ...analysis.triton.programs import (
    knows_program_zero_alone,
    multiprocessors_of,
    of_program,
    tensor_of,
    with_multiprocessors,
)
from ...analysis.triton.values import assigned_in
from ..rule import Machine, Rewritten, with_source

PER_MULTIPROCESSOR = (1, 2, 4, 8, 16)
STAGES = (1, 2, 3, 4)
_CONSTEXPR = m.SimpleStatementLine([m.AnnAssign(target=m.Name())])


@dataclass(frozen=True)
class PersistentRows:
    """Let each program of a straight function take the work of several in turn, in a loop with stages.

    Needs a grid of one axis, which the function knows only by `tl.program_id(0)`, and a body without loops, branches
    and products. What a program assigns to a parameter gets a name of its own, so no step sees the one before.
    """

    name = "persistent-rows"
    category = "memory"
    work = "streams"
    why = "a program computes one row while the next one's loads are under way, and no wave of programs ends half empty"

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten | None:
        """Return the kernel with persistent programs, or None where no function has this form."""
        file = TritonFile.read(kernel)
        if file is None or "torch" not in file.taken:
            return None
        taken = file.taken
        each, stages = fresh("PROGRAMS_EACH", taken), fresh("ROW_STAGES", taken)
        host, is_there = multiprocessors_of(file)
        edits: dict[cst.CSTNode, Edit] = {}
        for launch in file.launched_once():
            tensor = tensor_of(launch)
            if tensor is None or launch.function.node in edits or not _is_straight(launch):
                continue
            grid = code(launch.grid[0]) if launch.grid else ""
            count = fresh("n_programs", {*launch.function.parameters, *names(launch.function.node)})
            edits[launch.function.node] = _persistent(launch.function, count, stages)
            programs = f"(min({grid}, {each} * {host}({tensor}.device)),)"
            call = regridded(relaunched(launch, launch.function.name, {count: grid, stages: stages}), programs)
            edits[launch.node] = _instead(call)
        if not edits:
            return None
        parameters = (Parameter(each, PER_MULTIPROCESSOR, 4), Parameter(stages, STAGES, 2))
        module = edited(file.module, edits)
        if not is_there:
            module = with_multiprocessors(module, host)
        for one in reversed(parameters):
            module = add_constant(module, one.name, one.default)
        module = declaring(kernel, module, parameters)
        return Rewritten(with_source(kernel, module), "made the programs persistent", parameters)


def _instead(call: cst.Call) -> Edit:
    return lambda _: call


def _is_straight(launch: Launch) -> bool:
    atomic = m.Call(func=m.Attribute(attr=m.Name(m.MatchRegex("atomic_.*"))))
    branches = find_all(launch.function.node, m.For() | m.While() | m.If() | m.Return() | atomic)
    return knows_program_zero_alone(launch) and not branches and not has_products(launch) and not _is_one(launch)


def _is_one(launch: Launch) -> bool:
    """Return whether the grid is one program."""
    one = m.Call(args=[m.Arg(m.Integer("1")), m.Arg()]) | m.Integer("1")
    return launch.grid is not None and m.matches(launch.grid[0], one)


def _persistent(function: Function, count: str, stages: str) -> Edit:
    taken = {*function.parameters, *names(function.node)}
    turn, program = fresh("turn", taken), fresh("program", taken)
    body = body_of(function.node)
    constants = [one for one in body if m.matches(one, _CONSTEXPR)]
    moved = [one for one in body if one not in constants]
    own: dict[str, str] = {}
    copies: list[str] = []
    for parameter in function.parameters:
        if any(parameter in assigned_in(one) for one in moved):
            own[parameter] = fresh(f"{parameter}_of_row", taken)
            if _is_read_first(moved, parameter):
                copies.append(f"{own[parameter]} = {parameter}\n")
    inside = [substitute(one, own) for one in moved]
    steps = f"tl.cdiv({count} - tl.program_id(0), tl.num_programs(0))"
    head = (
        f"for {turn} in tl.range(0, {steps}, num_stages={stages}):\n"
        f"    {program} = tl.program_id(0) + {turn} * tl.num_programs(0)\n" + "".join(f"    {one}" for one in copies)
    )

    def rewrite(node: cst.CSTNode) -> cst.CSTNode:
        changed = cst.ensure_type(node, cst.FunctionDef)
        loop = cst.ensure_type(statements(head)[0], cst.For)
        block = cst.ensure_type(loop.body, cst.IndentedBlock)
        replaced = [of_program(one, program) for one in inside]
        loop = loop.with_changes(body=block.with_changes(body=[*block.body, *replaced]))
        return changed.with_changes(body=changed.body.with_changes(body=[*constants, loop]))

    added = both(with_parameters([count], constexpr=False), with_parameters([stages]))
    return both(rewrite, added)


def _is_read_first(body: Sequence[cst.BaseStatement], name: str) -> bool:
    """Return whether the first statement with a name reads it."""
    first = next(one for one in body if name in names(one))
    match first:
        case cst.SimpleStatementLine(body=[cst.Assign(targets=[cst.AssignTarget(cst.Name(target))], value=value)]):
            return target != name or name in names(value)
    return True
