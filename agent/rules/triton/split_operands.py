"""Operands of precise products split into bf16 parts once, before the product reads them."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ...analysis.applicability import NotApplicable, need, require
from ...analysis.change import Change, Rewritten
from ...analysis.search import find_all
from ...analysis.source import code
from ...analysis.triton import (
    OTHER_FLOATS,
    PRECISIONS,
    SPLIT_HALVES,
    Dot,
    Function,
    Launch,
    TritonKernel,
    assumption,
    dots_of,
    further_arguments,
    is_argument,
    is_dense,
)
from ..rule import rule

BLOCKS = (1024, 2048, 4096)
_HELPER = '''
@triton.jit
def split_halves_kernel(x_ptr, halves_ptr, numel, distance, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < numel, other=0.0)
    hi = x.to(tl.bfloat16)
    tl.store(halves_ptr + offs, hi, mask=offs < numel)
    tl.store(halves_ptr + distance + offs, (x - hi.to(tl.float32)).to(tl.bfloat16), mask=offs < numel)


def split_halves(x):
    """The high parts of a dense tensor in bf16, then at a distance the low parts, in the order of its elements."""
    numel = x.numel()
    distance = triton.cdiv(numel, 64) * 64  # whole vectors of elements
    halves = torch.empty(2 * distance, device=x.device, dtype=torch.bfloat16)
    split_halves_kernel[(triton.cdiv(numel, {block}),)](x, halves, numel, distance, BLOCK={block}, num_warps=4)
    return halves, distance
'''


@rule(
    "split-operands",
    category="compute",
    work="products",
    why="tensor cores then read bf16 from shared memory, and no value is split more than once",
    reads=TritonKernel.read,
)
def split_operands(kernel: TritonKernel, change: Change) -> Rewritten:
    """Both operands of a product are split into high and low bf16 parts by a kernel of its own before each launch.

    The product then loads both parts and sums high * low, low * high and high * high. Needs a function that is
    launched at one place with one product of IEEE precision (or of one that split-precision chooses), each operand of
    which is one load through a pointer that nothing else reads, of a tensor that is dense: a module's parameter, a
    new or a contiguous one. An argument of forward is made contiguous first. Of a loop over a size of a tensor the
    compiler is told that it runs.
    """
    change.require_free(SPLIT_HALVES)
    block = change.constant("SPLIT_BLOCK", BLOCKS, 2048)
    contiguous: dict[cst.FunctionDef, list[str]] = {}
    chosen: dict[str, None] = {}

    def split(launch: Launch, change: Change) -> None:
        operands = _operands(launch, change)
        _split(launch, operands, change)
        given = [code(launch.arguments[operand.pointer]) for operand in operands]
        contiguous.setdefault(launch.host, []).extend(item for item in given if is_argument(launch.host, item))
        chosen.update(dict.fromkeys(_choices(launch)))

    change.each(kernel.launched_once(), split)
    for host, tensors in contiguous.items():
        if tensors:
            text = "".join(f"{name} = {name}.contiguous()\n" for name in dict.fromkeys(tensors))
            change.at_start(host, text)
    for name in chosen:
        change.fix(name, "bf16x3")
    change.helper(_HELPER.format(block=block))
    return change.rewritten("split the operands into high and low bf16 parts before the product")


@dataclass(frozen=True)
class _Operand:
    dot: Dot
    name: str
    """The variable that is loaded and multiplied."""
    load: cst.Call
    pointer: str
    """The parameter that it is loaded through."""


def _choices(launch: Launch) -> list[str]:
    """Return the constants that choose the precision of a launch's products."""
    choices = [dot.choice for dot in dots_of(launch.function)]
    return [constant for item in choices if item and (constant := launch.constant(item))]


def _operands(launch: Launch, change: Change) -> list[_Operand]:
    """Return the two operands of the launch's product. Raises NotApplicable where a precondition fails."""
    dots = dots_of(launch.function)
    require(len(dots) == 1, f"the function has {len(dots)} products that sum in a loop, not one")
    (dot,) = dots
    chosen = [change.kernel.config.get(constant) for constant in _choices(launch)]
    precise = dot.precision == "ieee" and not OTHER_FLOATS.search(change.kernel.source)
    require(precise or any(item in PRECISIONS for item in chosen), "the product is not of IEEE precision in fp32")
    found = [_operand(launch, dot, side) for side in (dot.left, dot.right)]
    require(len({item.pointer for item in found}) == 2, "both operands are loaded through one pointer")
    return found


def _operand(launch: Launch, dot: Dot, side: cst.BaseExpression) -> _Operand:
    function = launch.function
    value = function.value_of(side.value) if isinstance(side, cst.Name) else None
    text = code(side)
    if not isinstance(side, cst.Name) or not isinstance(value, cst.Call) or value not in function.loads:
        raise NotApplicable(f"the operand {text} is no load")
    pointer = function.base(value.args[0].value) if value.args and value.args[0].keyword is None else None
    pointer = need(pointer, f"the operand {text} is loaded through no parameter")
    tensor = need(launch.arguments.get(pointer), f"the launch does not give {pointer}")
    alone = len(function.uses(side.value)) == 2 and not _others_read(function, pointer, value)
    require(alone, f"more than the product uses {text} or {pointer}")
    argument = isinstance(tensor, cst.Name) and is_argument(launch.host, tensor.value)
    require(argument or is_dense(launch.host, tensor), f"{code(tensor)} may have holes")
    return _Operand(dot, side.value, value, pointer)


def _others_read(function: Function, pointer: str, load: cst.Call) -> bool:
    """Return whether anything but one load uses a pointer, also through names that hold it."""
    # Its type is read where a result is converted to it.
    types = find_all(function.node, m.Attribute(attr=m.Name("dtype")))
    if any(function.base(cst.ensure_type(item, cst.Attribute).value) == pointer for item in types):
        return True
    users = [call for call in [*function.loads, *function.stores] if call is not load]
    if any(call.args and function.base(call.args[0].value) == pointer for call in users):
        return True
    calls = [cst.ensure_type(call, cst.Call) for call in find_all(function.node, m.Call(func=m.Name()))]
    return any(function.base(arg.value) == pointer for call in calls for arg in call.args)


def _split(launch: Launch, operands: list[_Operand], change: Change) -> None:
    parts: list[tuple[str, str]] = []
    prepared, distances = "", {}
    for operand in operands:
        high, low = change.fresh(f"{operand.name}_hi"), change.fresh(f"{operand.name}_lo")
        halves, distance = change.fresh(f"{operand.name}_halves"), change.fresh(f"{operand.name}_distance")
        to_low = change.fresh(f"{operand.pointer}_low")
        rest, address = further_arguments(operand.load), code(operand.load.args[0].value)
        statement = need(launch.function.statement_of(operand.load), "an operand is loaded in no simple statement")
        loads = f"{high} = tl.load({address}{rest})\n{low} = tl.load({address} + {to_low}{rest})\n"
        change.put_statements(statement, loads)
        parts.append((high, low))
        tensor = launch.arguments[operand.pointer]
        prepared += f"{halves}, {distance} = {SPLIT_HALVES}({code(tensor)})\n"
        change.put(tensor, halves)
        distances[to_low] = distance
    (a_hi, a_lo), (b_hi, b_lo) = parts
    dot = operands[0].dot
    products = ((a_lo, b_hi), (a_hi, b_lo), (a_hi, b_hi))
    lines = [f"{dot.accumulator} = tl.dot({a}, {b}, {dot.accumulator})\n" for a, b in products]
    change.put_statements(dot.statement, "".join(lines))
    runs = assumption(launch, dot.loop)
    if runs is not None and runs.strip() not in code(launch.function.node):
        change.before(dot.loop, runs)
    change.add_parameters(launch.function.node, distances)
    change.add_arguments(launch.node, distances)
    change.before(launch.statement, prepared)
