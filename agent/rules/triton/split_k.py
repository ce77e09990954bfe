"""The sum of a product split over programs, where there are fewer tiles than multiprocessors."""

from __future__ import annotations

import ast
from collections.abc import Mapping

import libcst as cst

from ....core import Parameter, Value
from ....core.syntax_tree import expression_tree
from ...analysis.applicability import need, require
from ...analysis.change import Change, Rewritten
from ...analysis.edit import Edit, both, parsed, with_arguments, with_parameters
from ...analysis.source import code, expression
from ...analysis.triton import (
    Launch,
    SumLoop,
    TritonKernel,
    dots_of,
    operand_load,
    regridded,
    sides_of,
    sum_loop,
    texts,
)
from ..rule import rule

SPLITS = (2, 4, 8, 16, 32, 64)


@rule(
    "split-k",
    category="parallelism",
    work="products",
    why="with few tiles most multiprocessors have nothing to do, while each tile's sum is long",
    reads=TritonKernel.read,
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
        tiles = need(_tiles(launch, change.kernel.config), "the number of tiles is no number in the file")
        sides = need(sides_of(launch.function, dots_of(launch.function)), "no product of one tile")
        require(not _uses_third_axis(launch), "the grid has a third axis")
        loop = sum_loop(launch.function)
        missing, steps = count // tiles if tiles else 0, _steps(launch, loop, change.kernel.config)
        values = [item for item in SPLITS if missing > 1 and item <= 2 * missing and (steps is None or item <= steps)]
        require(values, f"{tiles} tiles keep {count} multiprocessors busy, or have too few steps")
        start = max((value for value in values if value * tiles <= count), default=values[0])
        _split(launch, loop, sides, constant, change)
        change.add(Parameter(constant, values, start))

    change.first(kernel.launched_once(), split)
    return change.rewritten("split the sum of each tile over several programs")


def _uses_third_axis(launch: Launch) -> bool:
    axes = [code(axis) for axis in launch.grid or ()]
    counts = launch.function.calls("program_id", "num_programs")
    return (
        not axes or axes[2:] not in ([], ["1"]) or any(call.args and code(call.args[0].value) == "2" for call in counts)
    )


def _tiles(launch: Launch, config: Mapping[str, Value]) -> int | None:
    """Return the number of programs, where the text has all numbers for it."""
    total = 1
    for axis in launch.grid or ():
        found = _number(expression_tree(code(axis)), config)
        if found is None:
            return None
        total *= found
    return total if launch.grid else None


def _steps(launch: Launch, loop: SumLoop, config: Mapping[str, Value]) -> int | None:
    """Return the number of steps, where the function has the size as a number."""
    function = launch.function
    known: dict[str, Value] = {}
    for name in function.assignments:
        text = function.literal(cst.Name(name))
        if text is not None and text.isdigit():
            known[name] = int(text)
    for name in function.constexprs:
        constant = launch.constant(name)
        if constant is not None and constant in config:
            known[name] = config[constant]
    return _number(expression_tree(loop.steps), known)


def _number(node: ast.expr, config: Mapping[str, Value]) -> int | None:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name) if isinstance(config.get(name), int):
            return int(config[name])
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            one, other = _number(left, config), _number(right, config)
            return None if one is None or other is None else one * other
        case ast.Call(func=ast.Attribute(attr="cdiv"), args=[size, tile]):
            one, other = _number(size, config), _number(tile, config)
            return None if one is None or not other else -(-one // other)
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
    with_both: Edit = both(with_parameters(["parts_ptr"], constexpr=False), with_parameters([constant]))

    def in_two(node: cst.CSTNode) -> cst.FlattenSentinel[cst.BaseStatement]:
        original = cst.ensure_type(node, cst.FunctionDef)
        body = list(original.body.body)
        at = next(i for i, one in enumerate(function.node.body.body) if one is loop.node)
        part = cst.ensure_type(body[at], cst.For).with_changes(iter=expression(loop.part))
        ending = parsed(f"{place}tl.store(parts_ptrs, {accumulator})\n")
        parts = original.with_changes(
            name=cst.Name(first), body=original.body.with_changes(body=[*body[:at], *parsed(one_part), part, *ending])
        )
        whole = original.with_changes(
            body=original.body.with_changes(body=[*body[:at], *parsed(all_parts), *body[at + 1 :]]),
            leading_lines=[cst.EmptyLine(indent=False), cst.EmptyLine(indent=False)],
        )
        return cst.FlattenSentinel([cst.ensure_type(with_both(item), cst.FunctionDef) for item in (parts, whole)])

    axes = [code(axis) for axis in launch.grid or ()][:2]
    axes += ["1"] * (2 - len(axes))
    load = operand_load(function, loop.dot.left)
    tensor = function.base(load.args[0].value) if load is not None and load.args else None
    given = texts(launch)
    count = " * ".join([constant, *(f"({axis})" for axis in axes), given[rows], given[columns]])
    device = f"{given[need(tensor, 'no tensor of the launch is known')]}.device"
    extra = {"parts_ptr": "parts", constant: constant}
    renamed = launch.node.with_deep_changes(launch.node.func, value=cst.Name(first))
    called = with_arguments(extra)(regridded(renamed, f"({', '.join(axes)}, {constant})"))
    text = f"parts = torch.empty({count}, device={device}, dtype=torch.float32)\n"
    change.edit(function.node, in_two)
    change.add_arguments(launch.node, extra)
    change.before(launch.statement, text + code(cst.ensure_type(called, cst.Call)) + "\n")
