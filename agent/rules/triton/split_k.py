"""Split the sum of a product over programs, where there are fewer tiles than multiprocessors."""

from __future__ import annotations

import ast
from collections.abc import Mapping

import libcst as cst

from ....core import Parameter, Value
from ....core.syntax_tree import expression_tree
from ...analysis.change import with_parameters
from ...analysis.source import code, expression, statements
from ...analysis.tree import block_of, with_block
from ...analysis.triton import Launch, SumLoop, TritonKernel, dots_of, operand_load, sides_of, sum_loop
from ..rule import Change, Rewritten, need, require, rule

SPLITS = (2, 4, 8, 16, 32, 64)


@rule("parallelism", "products", TritonKernel.read).because(
    "with few tiles most multiprocessors have nothing to do, while each tile's sum is long"
)
def split_k(kernel: TritonKernel, change: Change) -> Rewritten:
    """Several programs sum parts of each tile into a buffer; a second launch adds the parts, in order, and goes on.

    The second is the function as it was, with a sum of parts in the place of its loop; the first ends after its loop.
    Nothing is atomic, so that results repeat. Needs sizes that are numbers in the file, with fewer tiles than
    multiprocessors, and one accumulator, in a loop `range(0, n)` or `range(0, n, step)` of the function's own body
    which changes nothing but the accumulator and pointers that advance by the same amount each time.
    """
    count = need(change.machine.multiprocessors, "the number of multiprocessors is not known")
    change.require_free("split_pid")
    constant = change.fresh("SPLIT_K")

    def split(launch: Launch, change: Change) -> None:
        axes = " * ".join(f"({axis})" for axis in launch.axes) or "grid"
        tiles = _number(expression_tree(axes), change.kernel.config)
        tiles = need(tiles, "the number of tiles is not a number in the file")
        sides = need(sides_of(launch.function, dots_of(launch.function)), "no product of one tile")
        counts = launch.function.calls("program_id", "num_programs")
        third = any(call.args and code(call.args[0].value) == "2" for call in counts)
        require(not third and launch.axes and launch.axes[2:] in ([], ["1"]), "the grid has a third axis")
        loop = sum_loop(launch.function)
        missing, steps = count // tiles if tiles else 0, _steps(launch, loop, change.kernel.config)
        values = [item for item in SPLITS if missing > 1 and item <= 2 * missing and (steps is None or item <= steps)]
        require(values, f"{tiles} tiles keep {count} multiprocessors busy, or have too few steps")
        start = max((value for value in values if value * tiles <= count), default=values[0])
        _split(launch, loop, sides, constant, change)
        change.add(Parameter(constant, values, start))

    change.first(kernel.launched_once(), split)
    return change.rewritten("split the sum of each tile over several programs")


def _steps(launch: Launch, loop: SumLoop, config: Mapping[str, Value]) -> int | None:
    constants = {name: launch.constant(name) or "" for name in launch.function.constexprs}
    given = {name: config[constant] for name, constant in constants.items() if constant in config}
    return _number(expression_tree(loop.steps), {**launch.function.numbers, **given})


def _number(node: ast.expr, config: Mapping[str, Value]) -> int | None:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name) if isinstance(config.get(name), int):
            return int(config[name])
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            first, second = _number(left, config), _number(right, config)
            return None if first is None or second is None else first * second
        case ast.Call(func=ast.Attribute(attr="cdiv"), args=[size, tile]):
            first, second = _number(size, config), _number(tile, config)
            return None if first is None or not second else -(-first // second)
    return None


def _split(launch: Launch, loop: SumLoop, sides: tuple[str, str, str], constant: str, change: Change) -> None:
    """Put a function for the parts before that which adds them, and its launch before the other's."""
    function, accumulator = launch.function, loop.dot.accumulator
    first = change.fresh(f"{function.name}_parts")
    rows, columns, _ = sides
    place = f"""\
parts_at = ((split_pid * tl.num_programs(1) + tl.program_id(1)) * tl.num_programs(0) + tl.program_id(0)).to(tl.int64)
parts_ptrs = parts_ptr + parts_at * ({rows} * {columns})
parts_ptrs += tl.arange(0, {rows})[:, None] * {columns} + tl.arange(0, {columns})[None, :]
"""
    one_part = f"""\
# One program of {constant} sums its share of the steps.
split_pid = tl.program_id(2)
steps_of_part = tl.cdiv({loop.steps}, {constant})
first_step = split_pid * steps_of_part
# Where no part is empty, the loop certainly runs.
if ({constant} - 1) * steps_of_part < {loop.steps}:
    tl.assume({loop.has_part})
""" + "".join(f"{pointer} += first_step.to(tl.int64) * ({step})\n" for pointer, step in loop.advances)
    all_parts = f"for split_pid in range({constant}):\n" + "".join(
        f"    {line}\n" for line in [*place.splitlines(), f"{accumulator} += tl.load(parts_ptrs)"]
    )

    def in_two(node: cst.FunctionDef) -> cst.FlattenSentinel[cst.FunctionDef]:
        original = with_parameters(["parts_ptr"], [constant])(node)
        body, at = block_of(original), function.place_of(loop.node) or 0
        part = body[at].with_changes(iter=expression(loop.part))
        ending = statements(f"{place}tl.store(parts_ptrs, {accumulator})\n")
        parts = with_block(original, [*body[:at], *statements(one_part), part, *ending])
        whole = with_block(original, [*body[:at], *statements(all_parts), *body[at + 1 :]])
        lines = [cst.EmptyLine(indent=False), cst.EmptyLine(indent=False)]
        return cst.FlattenSentinel([parts.with_changes(name=cst.Name(first)), whole.with_changes(leading_lines=lines)])

    axes = [*launch.axes, "1"][:2]
    load = operand_load(function, loop.dot.left)
    tensor = function.base(load.args[0].value) if load is not None and load.args else None
    given = launch.texts
    count = " * ".join([constant, *(f"({axis})" for axis in axes), given[rows], given[columns]])
    device = f"{given[need(tensor, 'no tensor of the launch is known')]}.device"
    extra = {"parts_ptr": "parts", constant: constant}
    called = launch.relaunched(first, extra, f"({', '.join(axes)}, {constant})")
    text = f"parts = torch.empty({count}, device={device}, dtype=torch.float32)\n"
    change.edit(function.node, in_two)
    change.add_arguments(launch.node, extra)
    change.before(launch.statement, text + code(called) + "\n")
