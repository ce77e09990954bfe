"""How GPU kernels divide their work over blocks: the order of blocks, shared sums, blocks that stay, rows per block."""

from __future__ import annotations

import ast
from collections.abc import Callable

from .accumulators import allocations, any_call, elements, first_argument, innermost
from .flow import PRODUCTS, axes_of, combines_earlier, grid_axes, reduces
from .program import Call, DeviceCode, Loop, Program, base


def _swizzle(program: Program) -> bool:
    """Blocks in another order: by a function for it, or by quotient and remainder with a bounded group."""
    if any_call(program, "swizzle2d", "use_swizzle", "make_swizzled_layout", "make_mma_swizzle_layout"):
        return True
    if any(call.op.endswith("make_swizzled_layout") for code in program.kernels.values() for call in code.calls):
        return True
    for code in program.kernels.values():
        axes = grid_axes(code)
        bounded = {a.name for a in code.assignments if _is_call(a.value, code, "python.min", "minimum")}
        for assignment in code.assignments:
            for part in ast.walk(assignment.value):
                if not (isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod)):
                    continue
                if base(part.right) in bounded and axes_of(part.left, axes):
                    return True
    return False


def _is_call(node: ast.expr, code: DeviceCode, *ops: str) -> bool:
    return any(call.node is node and call.op in ops for call in code.calls)


def _split_k(program: Program) -> bool:
    """Blocks share a product's inner dimension: one axis of the grid moves both operands, and the parts are added."""
    for code in program.kernels.values():
        if code.ops() & PRODUCTS and _shares_inner_dimension(code):
            combined = any(first is code for first, _ in combines_earlier(program))
            summed = any(call.op in (".sum", "torch.sum") for call in program.forward)
            if combined or summed or code.ops() & {"atomic_add", "atomic_addx2"}:
                return True
    return False


def _shares_inner_dimension(code: DeviceCode) -> bool:
    known = grid_axes(code)
    for loop in code.loops:
        calls = code.calls[loop.calls]
        if not innermost(code, loop) or not any(call.op in PRODUCTS for call in calls):
            continue
        loads = [first_argument(call) for call in calls if call.op in ("load", ".load", "copy")]
        axes = [axes_of(address, known) for address in loads if address is not None]
        if len(axes) > 1 and frozenset.intersection(*axes):
            return True
    return False


def _two_stage(program: Program) -> bool:
    """A kernel writes partial sums, another one adds them."""
    return any(reduces(first) or _shares_inner_dimension(first) for first, _ in combines_earlier(program))


def _persistent(program: Program) -> bool:
    """A block goes from tile to tile in steps of the number of blocks."""
    for code in program.kernels.values():
        numbers = {a.name for a in code.assignments if _is_call(a.value, code, "program_id")}
        for loop in code.loops:
            args = loop.call.node.args if loop.call else []
            if loop.kind == "Persistent":
                return True
            strided = loop.kind == "range" and len(args) == 3 and not isinstance(args[2], ast.Constant)
            if strided and (_is_call(args[0], code, "program_id") or base(args[0]) in numbers):
                return True
            if code.grid is not None and any(_strides_over_grid(a.value, loop, code) for a in code.assignments):
                return True
    return False


def _strides_over_grid(node: ast.expr, loop: Loop, code: DeviceCode) -> bool:
    """`wave * BLOCKS + block`, where BLOCKS is the size of the grid and `wave` the loop's variable."""
    assert code.grid is not None
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)) or len(loop.variables) != 1:
        return False
    sizes = {ast.unparse(arg) for arg in code.grid.node.args}
    for product, block in ((node.left, node.right), (node.right, node.left)):
        if isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult) and base(block) in code.blocks:
            factors = {ast.unparse(product.left), ast.unparse(product.right)}
            if loop.variables[0] in factors and factors & sizes:
                return True
    return False


def _multi_row(program: Program) -> bool:
    """A block with a two-dimensional tile reduces each of its rows; products, which do that too, do not count."""
    for code in program.kernels.values():
        if not code.ops() & PRODUCTS and any(_several_results(program, code, call) for call in code.calls):
            return True
    return False


def _several_results(program: Program, code: DeviceCode, call: Call) -> bool:
    if call.op in ("sum", "max", "min") and call.node.args:
        axis = call.keyword("axis") or (call.node.args[1] if len(call.node.args) > 1 else None)
        if axis is None:
            return False
        return program.value(axis) == 1 or base(call.node.args[0]) in _matrices(code)
    if call.op in ("reduce_sum", "reduce_max", "reduce_min") and len(call.node.args) > 1:
        fragments = allocations(code, "alloc_fragment")
        if target := fragments.get(base(call.node.args[1])):
            sizes = elements(first_argument(target), lambda node: program.value(node, code))
            return any(size != 1 for size in sizes)
    return False


def _matrices(code: DeviceCode) -> set[str]:
    """Variables that are assigned a block of two dimensions."""
    shapes = {name: first_argument(call) for name, call in allocations(code, "zeros", "full").items()}
    return {name for name, shape in shapes.items() if isinstance(shape, ast.Tuple) and len(shape.elts) == 2}


GRID_RECOGNIZERS: dict[str, Callable[[Program], bool]] = {
    "swizzle": _swizzle,
    "split-k": _split_k,
    "persistent-grid": _persistent,
    "two-stage-reduction": _two_stage,
    "multi-row-blocks": _multi_row,
}
