"""The sum of a product split over programs, where there are fewer tiles than multiprocessors."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

import libcst as cst

from ....core import Parameter, PythonKernel, Value
from ....core.syntax_tree import expression_tree
from ...analysis.edit import Edit, Edited, before, declaring, edited, parsed, with_arguments, with_parameters
from ...analysis.source import add_constant, code, expression, fresh
from ...analysis.triton.dots import Dot, dots_of
from ...analysis.triton.kernel import Launch, TritonFile
from ...analysis.triton.sum_loop import SumLoop, sum_loop
from ...analysis.triton.tiles import sides_of
from ..rule import Machine, Rewritten, with_source

SPLITS = (2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class SplitK:
    """Several programs sum parts of each tile into a buffer; a second launch adds the parts, in order, and goes on.

    The second is the function as it was, with a sum of parts in the place of its loop; the first ends after its loop.
    Nothing is atomic, so that results repeat. Needs sizes that are numbers in the file, with fewer tiles than
    multiprocessors, and one accumulator, in a loop `range(0, n)` or `range(0, n, step)` of the function's own body
    which changes nothing but the accumulator and pointers that advance by the same amount each time.
    """

    name = "split-k"
    category = "parallelism"
    work = "products"
    why = "with few tiles most multiprocessors have nothing to do, while each tile's sum is long"

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten | None:
        """Return the kernel with a split sum, or None where no launch has too few tiles."""
        file = TritonFile.read(kernel)
        if file is None or machine.multiprocessors is None or "split_pid" in file.taken:
            return None
        for launch in file.launched_once():
            tiles = _tiles(launch, kernel.config)
            sides = sides_of(launch.function, dots_of(launch.function))
            loop = None if _uses_third_axis(launch) else sum_loop(launch.function)
            if not tiles or sides is None or loop is None:
                continue
            values = _splits(machine.multiprocessors // tiles, _steps(launch, loop, kernel.config))
            if not values:
                continue
            constant = fresh("SPLIT_K", file.taken)
            start = max((one for one in values if one * tiles <= machine.multiprocessors), default=values[0])
            parameter = Parameter(constant, values, start)
            edits = _edits(file, launch, loop, (sides[0], sides[1]), constant)
            module = add_constant(edited(file.module, edits), constant, start)
            return Rewritten(
                with_source(kernel, declaring(kernel, module, [parameter])),
                "split the sum of each tile over several programs",
                (parameter,),
            )
        return None


def _splits(missing: int, steps: int | None) -> list[int]:
    """Return the numbers of parts to try, for so many programs per tile and steps of the sum."""
    return [one for one in SPLITS if missing > 1 and one <= 2 * missing and (steps is None or one <= steps)]


def _uses_third_axis(launch: Launch) -> bool:
    axes = [code(axis) for axis in launch.grid or ()]
    counts = launch.function.calls("program_id", "num_programs")
    return not axes or axes[2:] not in ([], ["1"]) or any(code(call).endswith("(2)") for call in counts)


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


def _edits(
    file: TritonFile, launch: Launch, loop: SumLoop, sides: tuple[str, str], constant: str
) -> dict[cst.CSTNode, Edit]:
    """Return the edits: a function for the parts before that which adds them, and its launch before the other's."""
    function, accumulator = launch.function, loop.dot.accumulator
    first = fresh(f"{function.name}_parts", file.taken)
    rows, columns = sides
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
    add, flagged = with_parameters(["parts_ptr"], constexpr=False), with_parameters([constant])

    def with_both(node: cst.FunctionDef) -> cst.FunctionDef:
        changed = add(node)
        assert isinstance(changed, cst.CSTNode)
        return cst.ensure_type(flagged(changed), cst.FunctionDef)

    def both(node: cst.CSTNode) -> Edited:
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
        return cst.FlattenSentinel([with_both(parts), with_both(whole)])

    axes = [code(axis) for axis in launch.grid or ()][:2]
    axes += ["1"] * (2 - len(axes))
    tensor = function.base(_operand(loop.dot)) or ""
    texts = {name: code(value) for name, value in launch.arguments.items()}
    count = " * ".join([constant, *(f"({axis})" for axis in axes), texts[rows], texts[columns]])
    device = f"{texts[tensor]}.device"
    subscript = cst.ensure_type(launch.node.func, cst.Subscript)
    index = cst.SubscriptElement(cst.Index(expression(f"({', '.join(axes)}, {constant})")))
    call = launch.node.with_changes(func=subscript.with_changes(value=cst.Name(first), slice=[index]))
    extra = {"parts_ptr": "parts", constant: constant}
    called = with_arguments(extra)(call)
    assert isinstance(called, cst.Call)
    text = f"parts = torch.empty({count}, device={device}, dtype=torch.float32)\n{code(called)}\n"
    return {
        function.node: both,
        launch.node: with_arguments(extra),
        launch.statement: before(text),
    }


def _operand(dot: Dot) -> cst.BaseExpression:
    """Return the address that the left operand is loaded from."""
    value = dot.function.value_of(code(dot.left))
    if isinstance(value, cst.Call) and value.args:
        return value.args[0].value
    return cst.Name("None")
