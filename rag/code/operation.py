"""Which operation a kernel computes, from its syntax tree: a guess, as examples name theirs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .program import DeviceCode, Program, base, is_tile_product, names, products, values

_REDUCTIONS = {"sum", "max", "min", "reduce_sum", "reduce_max", "reduce_min", "reduce_absmax", "reduce_abssum"}
_PRODUCTS = {"dot", "dot_scaled", "gemm", "gemm_sp", "wgmma_gemm", "tcgen05_gemm"}
_EXPONENTIALS = {"exp", "exp2", "exp10"}
_FUNCTIONS = _EXPONENTIALS | {"log", "log2", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "sin", "cos", "pow"}
_ROOTS = {"sqrt", "rsqrt"}
_LOGARITHMS = {"log", "log2", "log1p"}
_SCANS = {"associative_scan", "cumsum", "cumprod", "cummax"}
_TURNS = {"trans", "permute", "transpose"}


def operation(program: Program) -> str:
    """'matmul', 'softmax', ..., whatever the kernel file most likely is; 'elementwise' where nothing else holds."""
    ops = _ops(program)
    modules = " ".join(program.modules.values())
    tiles = [sum(call.op in _PRODUCTS for call in code.calls) for code in program.kernels.values()]
    exponential = bool(ops & _EXPONENTIALS)
    largest = bool(ops & {"max", "maximum", "reduce_max"})
    answers = (
        ("convolution", "Conv" in modules or _slides(program)),
        ("embedding", "Embedding" in modules),
        ("attention", sum(tiles) > 1 and exponential and largest),
        ("matmul", any(tiles) or any(map(_multiplies, program.kernels.values()))),
        ("cross-entropy", exponential and bool(ops & _LOGARITHMS) and _gathers(program)),
        ("softmax", exponential and largest),
        ("layernorm", bool(ops & _ROOTS) and any(map(_centers, program.kernels.values()))),
        ("rmsnorm", bool(ops & _ROOTS) and _sums(program)),
        ("scan", bool(ops & _SCANS)),
        ("rope", {"sin", "cos"} <= ops),
        ("reduction", _sums(program)),
        ("transpose", bool(ops & _TURNS) or not _computes(program)),
    )
    return next((name for name, holds in answers if holds), "elementwise")


def _ops(program: Program) -> set[str]:
    return set().union(*(code.ops() for code in program.kernels.values()))


def _sums(program: Program) -> bool:
    return any(
        code.ops() & (_REDUCTIONS | {"atomic_add"}) or any(_accumulations(code)) for code in program.kernels.values()
    )


def _multiplies(code: DeviceCode) -> bool:
    """Whether a loop adds up products of two tensors: of their tiles, or of what it loaded of both."""
    loads = {
        id(call.node): _tensor(call.node.args[0], code) for call in code.calls if call.op == "load" and call.node.args
    }
    loaded = {a.name: loads[id(p)] for a in code.assignments for p in ast.walk(a.value) if id(p) in loads}
    for value in _accumulations(code):
        for left, right in products(value):
            origins = loaded.get(base(left)), loaded.get(base(right))
            if is_tile_product(left, right) or (all(origins) and origins[0] != origins[1]):
                return True
    return False


def _slides(program: Program) -> bool:
    """Whether some product reads elements at a position plus a tap: three indices or more, one of them a sum of two
    loops' variables and a quotient or offset."""
    for code in program.kernels.values():
        variables = {name for loop in code.loops for name in loop.variables}
        for element in code.subscripts:
            index = element.slice.elts if isinstance(element.slice, ast.Tuple) else []
            if len(index) >= 3 and base(element) in code.parameters:
                sliding = [part for part in index if len(names(part) & variables) > 1]
                if len(sliding) >= 2 and any(_accumulations(code)):
                    return True
    return False


def _gathers(program: Program) -> bool:
    """Whether an address is itself loaded."""
    for code in program.kernels.values():
        loads = {id(call.node) for call in code.calls if call.op == "load"}
        loaded = {a.name for a in code.assignments if any(id(part) in loads for part in ast.walk(a.value))}
        for call in code.calls:
            if call.op == "load" and call.node.args:
                address = call.node.args[0]
                if names(address) & loaded or any(id(part) in loads for part in ast.walk(address)):
                    return True
        for element in code.subscripts:
            if any(
                isinstance(part, ast.Subscript) and base(part) in code.parameters for part in ast.walk(element.slice)
            ):
                return True
    return False


def _centers(code: DeviceCode) -> bool:
    """Whether data is subtracted from data."""
    sources = {id(call.node) for call in code.calls if call.op in {"load", "zeros", "alloc_fragment", "alloc_local"}}
    data = set(code.parameters) if code.grid is not None else set()
    for assignment in code.assignments:
        if any(id(part) in sources or base(part) in data for part in _parts(assignment.value)):
            data.add(assignment.name)
    return any(
        isinstance(part, ast.BinOp) and isinstance(part.op, ast.Sub) and {base(part.left), base(part.right)} <= data
        for assignment in code.assignments
        for part in values(assignment.value)
    )


def _parts(node: ast.expr) -> list[ast.expr]:
    return [part for part in values(node) if isinstance(part, ast.expr)]


def _computes(program: Program) -> bool:
    """Whether any value that is stored is more than something that was read."""
    for code in program.kernels.values():
        if code.ops() & (_FUNCTIONS | {"where", "if_then_else", "maximum", "minimum", "clamp", "max", "min"}):
            return True
        for call in code.calls:
            if call.op == "store" and len(call.node.args) > 1 and isinstance(call.node.args[1], ast.BinOp):
                return True
        loads = {id(call.node) for call in code.calls if call.op == "load"}
        for assignment in code.assignments:
            in_memory = isinstance(assignment.target, ast.Subscript)
            on_loaded = any(id(part) in loads for part in ast.walk(assignment.value))
            if (in_memory or on_loaded) and (assignment.op or isinstance(assignment.value, ast.BinOp)):
                return True
    return False


def _tensor(node: ast.expr, code: DeviceCode, depth: int = 8) -> str:
    """The parameter that a pointer expression, an element or a descriptor belongs to; '' if it is unclear."""
    while isinstance(node, ast.BinOp | ast.Call):
        node = node.left if isinstance(node, ast.BinOp) else node.args[0] if node.args else ast.Constant(None)
    name = base(node)
    if name in code.parameters or not depth:
        return name if name in code.parameters else ""
    first = next((a.value for a in code.assignments if a.name == name and isinstance(a.target, ast.Name)), None)
    return _tensor(first, code, depth - 1) if first is not None else ""


def _accumulations(code: DeviceCode) -> Iterator[ast.expr]:
    """The term that a loop adds to an accumulator in each step."""
    for loop in code.loops:
        for assignment in code.assignments[loop.assignments]:
            if assignment.op == "Add" and assignment.name not in code.parameters:
                yield assignment.value
