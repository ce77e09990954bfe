"""Split operands of precise products into bf16 parts once, before the product reads them."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from ...analysis.source import code, spells
from ...analysis.tree import find_all
from ...analysis.triton import (
    OTHER_FLOATS,
    PRECISIONS,
    SPLIT_HALVES,
    Function,
    Launch,
    OperandLoad,
    TritonKernel,
    assumption,
    dots_of,
    further_arguments,
    is_argument,
    is_dense,
    make_contiguous,
)
from ..rule import Change, Rewritten, need, need_a, require, rule

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


@rule("compute", "products", TritonKernel.read).because(
    "tensor cores then read bf16 from shared memory, and no value is split more than once"
)
def split_operands(kernel: TritonKernel, change: Change) -> Rewritten:
    """Both operands of a product are split into high and low bf16 parts by a kernel of its own before each launch.

    The product then loads both parts and sums high * low, low * high and high * high. Needs a function that is
    launched at one place with one product of IEEE precision (or of one that split-precision chooses), each operand of
    which is one load through a pointer that nothing else reads, of a tensor that is dense: a module's parameter, a
    new or a contiguous one. An argument of forward is made contiguous first. Of a loop over a size of a tensor the
    compiler must know that it runs.
    """
    change.require_free(SPLIT_HALVES)
    block = change.constant("SPLIT_BLOCK", BLOCKS, 2048)
    changed = change.each(kernel.launched_once(), _split)
    given = [(launch.host, code(load.tensor)) for launch, operands in changed for load in operands.values()]
    make_contiguous(change, (item for item in given if is_argument(*item)))
    for name in dict.fromkeys(name for launch, _ in changed for name in _choices(launch)):
        change.fix(name, "bf16x3")
    change.helper(_HELPER.format(block=block))
    return change.rewritten("split the operands into high and low bf16 parts before the product")


def _choices(launch: Launch) -> list[str]:
    choices = [dot.choice for dot in dots_of(launch.function)]
    return [constant for item in choices if item and (constant := launch.constant(item))]


def _operands(launch: Launch, change: Change) -> dict[str, OperandLoad]:
    """Return the loads of both operands by their names."""
    dots = dots_of(launch.function)
    require(len(dots) == 1, f"the function has {len(dots)} products that sum in a loop, not one")
    (dot,) = dots
    chosen = [change.kernel.config.get(constant) for constant in _choices(launch)]
    precise = dot.precision == "ieee" and not spells(change.module, OTHER_FLOATS)
    require(precise or any(item in PRECISIONS for item in chosen), "the product is not of IEEE precision in fp32")
    found = {code(side): _operand(launch, side) for side in (dot.left, dot.right)}
    require(len({item.base for item in found.values()}) == 2, "both operands are loaded through one pointer")
    return found


def _operand(launch: Launch, side: cst.BaseExpression) -> OperandLoad:
    name = need_a(cst.Name, side, f"the operand {code(side)} is not a load").value
    found = OperandLoad.of(launch, side)
    require(found.call.args[0].keyword is None, f"the operand {name} is loaded through no parameter")
    alone = len(launch.function.uses(name)) == 2 and not _others_read(launch.function, found.base, found.call)
    require(alone, f"more than the product uses {name} or {found.base}")
    argument = isinstance(found.tensor, cst.Name) and is_argument(launch.host, found.tensor.value)
    require(argument or is_dense(launch.host, found.tensor), f"{code(found.tensor)} may have holes")
    return found


def _others_read(function: Function, pointer: str, load: cst.Call) -> bool:
    """Return whether anything but one load uses a pointer, also through names that hold it."""
    # Its type is read where a result is converted to it.
    read = [item.value for item in find_all(function.node, cst.Attribute, m.Attribute(attr=m.Name("dtype")))]
    users = [call for call in (*function.loads, *function.stores) if call is not load]
    read += [call.args[0].value for call in users if call.args]
    read += [arg.value for call in find_all(function.node, cst.Call, m.Call(func=m.Name())) for arg in call.args]
    return any(function.base(item) == pointer for item in read)


def _split(launch: Launch, change: Change) -> tuple[Launch, dict[str, OperandLoad]]:
    """Change one launch; return it with the loads of its product's operands."""
    operands = _operands(launch, change)
    parts: list[tuple[str, str]] = []
    prepared, distances = "", dict[str, str]()
    for name, load in operands.items():
        high, low = change.fresh(f"{name}_hi"), change.fresh(f"{name}_lo")
        halves, distance = change.fresh(f"{name}_halves"), change.fresh(f"{name}_distance")
        to_low = change.fresh(f"{load.base}_low")
        rest, address = further_arguments(load.call), code(load.pointer)
        statement = need(launch.function.statement_of(load.call), "an operand is loaded in no simple statement")
        loads = f"{high} = tl.load({address}{rest})\n{low} = tl.load({address} + {to_low}{rest})\n"
        change.put_statements(statement, loads)
        parts.append((high, low))
        prepared += f"{halves}, {distance} = {SPLIT_HALVES}({code(load.tensor)})\n"
        change.put(load.tensor, halves)
        distances[to_low] = distance
    (a_hi, a_lo), (b_hi, b_lo) = parts
    (dot,) = dots_of(launch.function)
    products = ((a_lo, b_hi), (a_hi, b_lo), (a_hi, b_hi))
    lines = [f"{dot.accumulator} = tl.dot({a}, {b}, {dot.accumulator})\n" for a, b in products]
    change.put_statements(dot.statement, "".join(lines))
    runs = assumption(launch, dot.loop)
    if runs is not None and runs.strip() not in code(launch.function.node):
        change.before(dot.loop, runs)
    change.add_parameters(launch.function.node, distances)
    change.add_arguments(launch.node, distances)
    change.before(launch.statement, prepared)
    return launch, operands
