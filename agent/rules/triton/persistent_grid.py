"""Persistent programs, as many as the device runs at once, each of which computes many tiles of a product."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping

import libcst as cst
import libcst.matchers as m

from ...analysis.source import code, expression, operand, statements, substitute
from ...analysis.template import match, matches
from ...analysis.tree import find_all, named, only_line, target_of, with_block
from ...analysis.triton import Function, Launch, TritonKernel, dots_of
from ..rule import Change, Rewritten, need, require, rule

_LOOP = "tile_pid"


@rule("parallelism", "products", TritonKernel.read).because(
    "the next tile's loads start while the last one is stored, and no last wave is nearly empty"
)
def persistent_grid(kernel: TritonKernel, change: Change) -> Rewritten:
    """The function loops over the tiles that its program would have been many programs for.

    Program p of P takes the tiles p, p + P, ...; a parameter says whether the compiler merges this loop with that of
    the sum. Needs a function that is launched at one place, with one or two axes in the grid, no `return`, and the
    number of the device's multiprocessors. A parameter that the function changes gets a name of its own for each tile.
    """
    count = need(change.machine.multiprocessors, "the number of multiprocessors is not known")
    change.require_free(_LOOP)
    programs = change.constant("PROGRAMS", [count, 2 * count], count)
    flatten = change.constant("FLATTEN", [False, True], False)
    change.each(kernel.launched_once(), lambda launch, change: _make_persistent(launch, change, programs, flatten))
    return change.rewritten("gave each multiprocessor a program that loops over tiles")


def _require_fitting(launch: Launch) -> None:
    require(dots_of(launch.function), "no product")
    body = [statement for statement in launch.function.node.body.body if not _is_guard(launch.function, statement)]
    inside = any(find_all(item, m.Return() | m.FunctionDef()) for item in body)
    require(not inside, "the function returns early or defines another function")
    require(launch.axes and launch.axes[2:] in ([], ["1"]), "the grid has no one or two axes")
    counts = launch.function.calls("program_id", "num_programs")
    plain = all(len(call.args) == 1 and code(call.args[0].value) in ("0", "1") for call in counts)
    require(plain, "an axis of the grid is not a number")


def _is_guard(function: Function, statement: cst.CSTNode) -> bool:
    """Return whether a statement is `if M * N == 0: return` with sizes that are not zero."""
    found = match("if q_one * q_other == 0:\n    return", statement) if isinstance(statement, cst.If) else None
    sizes = [function.literal(expression(item)) or "" for item in (found or {}).values()]
    return found is not None and all(size.isdigit() and size != "0" for size in sizes)


def _make_persistent(launch: Launch, change: Change, programs: str, flatten: str) -> None:
    _require_fitting(launch)
    axes = list(launch.axes)
    while len(axes) > 1 and axes[-1] == "1":
        axes.pop()
    counts = [change.fresh(f"tiles_{axis}") for axis in range(len(axes))]
    # With one axis too: in the interpreter the loop's variable itself would be a plain number.
    numbers = {"0": f"{_LOOP} % {counts[0]}", "1": f"{_LOOP} // {counts[0]}"}
    for call in launch.function.calls("program_id"):
        change.put(call, operand(numbers[code(call.args[0].value)]))
    sizes = dict(zip("01", [*counts, "1"], strict=False))
    for call in launch.function.calls("num_programs"):
        change.put(call, sizes[code(call.args[0].value)])
    node = launch.function.node
    change.edit(node, lambda new: _looped(launch.function, new, counts, flatten))
    change.add_parameters(node, counts, [flatten])
    change.put(launch.grid_node, f"(min({programs}, {' * '.join(counts)}),)")
    change.add_arguments(launch.node, {name: name for name in (*counts, flatten)})
    text, grid = f"{', '.join(counts)} = {', '.join(axes)}\n", code(launch.grid_node)
    lines = find_all(launch.host, cst.SimpleStatementLine)
    lines = [line for line in lines if matches(line, "q_grid = q_axes", grid=grid)]
    if lines and len(named(launch.host, grid)) == 2:  # nothing but the launch uses it
        change.put(lines[0], statements(text)[0])
    else:
        change.before(launch.statement, text)


def _looped(before: Function, node: cst.FunctionDef, counts: list[str], flatten: str) -> cst.FunctionDef:
    """Return the function with its body in a loop over tiles; what does not depend on the tile stays before it."""
    pairs = zip(before.node.body.body, node.body.body, strict=True)
    kept = [new for old, new in pairs if isinstance(new, cst.BaseStatement) and not _is_guard(before, old)]
    kinds = m.AssignTarget(m.Name()) | m.AnnAssign() | m.AugAssign()
    targets = [target_of(assignment) for assignment in find_all(cst.IndentedBlock(kept), kinds)]
    assigned = Counter(map(code, targets))
    first = len([*itertools.takewhile(lambda statement: _is_plain(statement, assigned), kept)])
    changed = {name: f"{name}_of_tile" for name in before.parameters if name in assigned}
    body = statements("".join(f"{new} = {old}\n" for old, new in changed.items()))
    body += [substitute(item, changed) for item in kept[first:]]
    steps = f"tl.range(tl.program_id(0), {' * '.join(counts)}, tl.num_programs(0), flatten={flatten})"
    (loop,) = statements(f"for {_LOOP} in {steps}:\n    pass\n")
    return with_block(node, [*kept[:first], with_block(loop, body)])


def _is_plain(statement: cst.CSTNode, assigned: Mapping[str, int]) -> bool:
    """Return whether a statement only names a number, a constant or a parameter, once in the function."""
    match only_line(statement):
        case cst.Expr(value=cst.SimpleString()):
            return True
        case cst.Assign() | cst.AnnAssign() as inner:
            target = target_of(inner)
            plain = isinstance(inner.value, cst.Integer | cst.Name | cst.Attribute)
            return plain and isinstance(target, cst.Name) and assigned.get(target.value) == 1
    return False
