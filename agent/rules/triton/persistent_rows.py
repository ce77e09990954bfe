"""Start as many programs as stay on the device, each for many rows, with the next row's loads under way."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from ...analysis.source import fresh, names, statements, substitute
from ...analysis.template import matches
from ...analysis.tree import Edit, assigned_in, body_of, calls_in, find_all, only_line, with_block
from ...analysis.triton import Function, Launch, TritonKernel, multiprocessors_of, of_program, read_first
from ..rule import Change, Rewritten, require, rule

PER_MULTIPROCESSOR = (1, 2, 4, 8, 16)
STAGES = (1, 2, 3, 4)
_BRANCHES = m.For() | m.While() | m.If() | m.Return()


@rule("memory", "streams", TritonKernel.read).because(
    "a program computes one row while the next one's loads are under way, and no wave of programs ends half empty"
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
        tensor, node = launch.tensor(), launch.function.node
        alone = launch.knows_program_zero_alone
        require(alone, "the grid is not of one axis that the function knows by its number alone")
        plain = not find_all(node, _BRANCHES) and not calls_in(node, ".atomic_*")
        require(plain, "the function has loops, branches or atomics")
        require(not launch.function.has_products, "the function has products")
        require(not matches((launch.grid or ())[0], "1", "q_cdiv(1, q_block)"), "the grid is one program")
        (grid,) = launch.axes
        count = fresh("n_programs", {*launch.function.parameters, *names(node)})
        change.edit(node, _persistent(launch.function, count, stages))
        change.add_parameters(node, [count], [stages])
        programs = f"(min({grid}, {each} * {count_multiprocessors}({tensor}.device)),)"
        change.put(launch.node, launch.relaunched(launch.function.name, {count: grid, stages: stages}, programs))

    change.each(kernel.launched_once(), make_persistent)
    return change.rewritten("made the programs persistent")


def _persistent(function: Function, count: str, stages: str) -> Edit:
    taken = {*function.parameters, *names(function.node)}
    turn, program = fresh("turn", taken), fresh("program", taken)
    body = body_of(function.node)
    constants = [statement for statement in body if isinstance(only_line(statement), cst.AnnAssign)]
    moved = [statement for statement in body if statement not in constants]
    own: dict[str, str] = {}
    copies: list[str] = []
    for parameter in function.parameters:
        if any(parameter in assigned_in(item) for item in moved):
            own[parameter] = fresh(f"{parameter}_of_row", taken)
            if parameter in read_first(moved):
                copies.append(f"{own[parameter]} = {parameter}\n")
    steps = f"tl.cdiv({count} - tl.program_id(0), tl.num_programs(0))"
    (loop,) = statements(f"for {turn} in tl.range(0, {steps}, num_stages={stages}):\n    pass\n")
    first = statements(f"{program} = tl.program_id(0) + {turn} * tl.num_programs(0)\n" + "".join(copies))
    loop = with_block(loop, [*first, *(of_program(substitute(item, own), program) for item in moved)])
    return lambda node: with_block(node, [*constants, loop])
