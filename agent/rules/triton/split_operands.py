"""Operands of precise products split into bf16 parts once, before the product reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ....core import Config, Parameter, PythonKernel
from ...analysis.edit import Edit, before, both, declaring, edited, put, put_statements, with_arguments, with_parameters
from ...analysis.search import find_all
from ...analysis.source import add_constant, code, fresh, insert_before_definitions
from ...analysis.triton.dots import Dot, dots_of
from ...analysis.triton.first_step import assumption
from ...analysis.triton.function import Function, further_arguments
from ...analysis.triton.kernel import Launch, TritonFile
from ...analysis.triton.tensors import is_argument, is_dense
from ..rule import Machine, Rewritten, with_source
from .split_precision import OTHER_FLOATS, PRECISIONS

BLOCKS = (1024, 2048, 4096)
SPLIT_HALVES = "split_halves"
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


@dataclass(frozen=True)
class SplitOperands:
    """Both operands of a product are split into high and low bf16 parts by a kernel of its own before each launch.

    The product then loads both parts and sums high * low, low * high and high * high. Needs a function that is
    launched at one place with one product of IEEE precision (or of one that split-precision chooses), each operand of
    which is one load through a pointer that nothing else reads, of a tensor that is dense: a module's parameter, a
    new or a contiguous one. An argument of forward is made contiguous first. Of a loop over a size of a tensor the
    compiler is told that it runs.
    """

    name = "split-operands"
    category = "compute"
    work = "products"
    why = "tensor cores then read bf16 from shared memory, and no value is split more than once"

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten | None:
        """Return the kernel with split operands, or None where no product fits."""
        file = TritonFile.read(kernel)
        if file is None or SPLIT_HALVES in file.taken:
            return None
        found = {launch: operands for launch in file.launched_once() if (operands := _operands(launch, kernel))}
        if not found:
            return None
        block = fresh("SPLIT_BLOCK", file.taken)
        edits: dict[cst.CSTNode, Edit] = {}
        contiguous: dict[cst.CSTNode, list[str]] = {}
        for launch, operands in found.items():
            _rewrite(file, launch, operands, edits)
            names = [code(launch.arguments[one.pointer]) for one in operands]
            contiguous.setdefault(launch.host, []).extend(one for one in names if is_argument(launch.host, one))
        for host, names in contiguous.items():
            first = cst.ensure_type(host, cst.FunctionDef).body.body[0]
            text = "".join(f"{name} = {name}.contiguous()\n" for name in dict.fromkeys(names))
            if text:
                edits[first] = both(edits[first], before(text)) if first in edits else before(text)
        fixed = [Parameter(name, ["bf16x3"]) for launch in found for name in _choices(launch)]
        parameter = Parameter(block, BLOCKS, 2048)
        module = declaring(kernel, edited(file.module, edits), [*fixed, parameter])
        module = insert_before_definitions(module, _HELPER.format(block=block))
        module = add_constant(module, block, 2048)
        return Rewritten(
            with_source(kernel, module).bind(Config({one.name: "bf16x3" for one in fixed})),
            "split the operands into high and low bf16 parts before the product",
            (parameter,),
        )


@dataclass(frozen=True)
class _Operand:
    dot: Dot
    name: str
    """The variable that is loaded and multiplied."""
    load: cst.Call
    pointer: str
    """The parameter that it is loaded through."""


def where_split(
    kernel: PythonKernel, machine: Machine, change: Callable[[PythonKernel], PythonKernel | None], did: str, then: str
) -> Rewritten | None:
    """Change the products of split operands, in the kernel as it is or, where it has none, after `SplitOperands`.

    `did` says what that was, and `then` completes what splitting did; None where the change does not apply.
    """
    changed = change(kernel)
    if changed is not None:
        return Rewritten(changed, did)
    split = SplitOperands().apply(kernel, machine)
    changed = change(split.kernel) if split else None
    if split is None or changed is None:
        return None
    return Rewritten(changed, f"{split.did}, {then}", split.parameters, split.constraints)


def _choices(launch: Launch) -> list[str]:
    """Return the constants that choose the precision of a launch's products."""
    choices = [dot.choice for dot in dots_of(launch.function)]
    return [constant for one in choices if one and (constant := launch.constant(one))]


def _operands(launch: Launch, kernel: PythonKernel) -> list[_Operand]:
    """Return the two operands of the launch's product; none where a precondition fails."""
    dots = dots_of(launch.function)
    if len(dots) != 1:
        return []
    (dot,) = dots
    chosen = [kernel.config.get(constant) for constant in _choices(launch)]
    precise = dot.precision == "ieee" and not OTHER_FLOATS.search(kernel.source)
    if not precise and not any(one in PRECISIONS for one in chosen):
        return []
    operands = [_operand(launch, dot, side) for side in (dot.left, dot.right)]
    found = [one for one in operands if one is not None]
    return found if len({one.pointer for one in found}) == 2 else []


def _operand(launch: Launch, dot: Dot, side: cst.BaseExpression) -> _Operand | None:
    function = launch.function
    value = function.value_of(side.value) if isinstance(side, cst.Name) else None
    if not isinstance(side, cst.Name) or not isinstance(value, cst.Call) or value not in function.loads:
        return None
    pointer = function.base(value.args[0].value) if value.args and value.args[0].keyword is None else None
    tensor = launch.arguments.get(pointer or "")
    if (
        pointer is None
        or tensor is None
        or len(function.uses(side.value)) != 2
        or _others_read(function, pointer, value)
    ):
        return None
    argument = isinstance(tensor, cst.Name) and is_argument(launch.host, tensor.value)
    return _Operand(dot, side.value, value, pointer) if argument or is_dense(launch.host, tensor) else None


def _others_read(function: Function, pointer: str, load: cst.Call) -> bool:
    """Return whether anything but one load uses a pointer, also through names that hold it."""
    # Its type is read where a result is converted to it.
    types = find_all(function.node, m.Attribute(attr=m.Name("dtype")))
    if any(function.base(cst.ensure_type(one, cst.Attribute).value) == pointer for one in types):
        return True
    users = [call for call in [*function.loads, *function.stores] if call is not load]
    if any(call.args and function.base(call.args[0].value) == pointer for call in users):
        return True
    calls = [cst.ensure_type(call, cst.Call) for call in find_all(function.node, m.Call(func=m.Name()))]
    return any(function.base(arg.value) == pointer for call in calls for arg in call.args)


def _rewrite(file: TritonFile, launch: Launch, operands: list[_Operand], edits: dict[cst.CSTNode, Edit]) -> None:
    """Add the edits of one launch and of its function."""
    parts: list[tuple[str, str]] = []
    prepared, distances = "", {}
    for one in operands:
        high, low = fresh(f"{one.name}_hi", file.taken), fresh(f"{one.name}_lo", file.taken)
        halves, distance = fresh(f"{one.name}_halves", file.taken), fresh(f"{one.name}_distance", file.taken)
        to_low = fresh(f"{one.pointer}_low", file.taken)
        rest = further_arguments(one.load)
        address = code(one.load.args[0].value)
        statement = launch.function.statement_of(one.load)
        assert statement is not None
        edits[statement] = put_statements(
            f"{high} = tl.load({address}{rest})\n{low} = tl.load({address} + {to_low}{rest})\n"
        )
        parts.append((high, low))
        tensor = launch.arguments[one.pointer]
        prepared += f"{halves}, {distance} = {SPLIT_HALVES}({code(tensor)})\n"
        edits[tensor] = put(halves)
        distances[to_low] = distance
    (a_hi, a_lo), (b_hi, b_lo) = parts
    dot = operands[0].dot
    products = ((a_lo, b_hi), (a_hi, b_lo), (a_hi, b_hi))
    lines = [f"{dot.accumulator} = tl.dot({a}, {b}, {dot.accumulator})\n" for a, b in products]
    edits[dot.statement] = put_statements("".join(lines))
    runs = assumption(launch, dot.loop)
    if runs is not None and runs.strip() not in code(launch.function.node):
        edits[dot.loop] = before(runs)
    edits[launch.function.node] = with_parameters(list(distances), constexpr=False)
    edits[launch.node] = with_arguments(distances)
    edits[launch.statement] = before(prepared)
