"""What a kernel computes, told from its syntax tree: the operation, its loops, products, reductions, types."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from .flow import EXPONENTIALS, PRODUCTS, REDUCTIONS, accumulations, tensor
from .program import Call, DeviceCode, Program, base, is_tile_product, names, products, values

FUNCTIONS = EXPONENTIALS | {"log", "log2", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "sin", "cos", "pow"}
_ROOTS = {"sqrt", "rsqrt"}
_LOGARITHMS = {"log", "log2", "log1p"}
_SCANS = {"associative_scan", "cumsum", "cumprod", "cummax"}
_TURNS = {"trans", "permute", "transpose"}
_FREE_OF_WORK = {
    *("empty", "empty_like", "zeros", "zeros_like", "ones", "full", "tensor", "device", "as_strided", "get_device"),
    *("from_tensor", "get_device_properties", "current_device", "set_device", "contiguous", "view"),
}
_METHODS = {
    *(".sum", ".mean", ".max", ".min", ".amax", ".softmax", ".log_softmax", ".matmul", ".mm", ".bmm", ".relu", ".exp"),
    *(".sqrt", ".rsqrt", ".tanh", ".sigmoid", ".add", ".add_", ".mul", ".mul_", ".div", ".div_", ".clamp", ".pow"),
}


@dataclass(frozen=True)
class Features:
    """The features of a kernel file."""

    operation: str
    """The best guess: 'matmul', 'softmax', ..., as examples name theirs."""
    kernels: int
    steps: int
    """Launches, and operations of torch between them."""
    loops: int
    products: int
    """Matrix products of tiles."""
    reductions: tuple[str, ...]
    functions: tuple[str, ...]
    dtypes: tuple[str, ...]

    def text(self) -> str:
        """The features in words, for an embedding."""
        parts = [self.operation, f"{self.steps} kernel{'s' if self.steps > 1 else ''}"]
        if self.loops:
            parts.append(f"{self.loops} loop{'s' if self.loops > 1 else ''}")
        if self.products:
            parts.append("tile products")
        for found in (self.reductions, self.functions, self.dtypes):
            parts += found
        return ", ".join(parts)


def features(program: Program) -> Features:
    """What a kernel file computes, and with what."""
    ops = _ops(program)
    return Features(
        operation=operation(program),
        kernels=len(program.kernels),
        steps=device_steps(program),
        loops=sum(len(code.loops) for code in program.kernels.values()),
        products=sum(call.op in PRODUCTS for code in program.kernels.values() for call in code.calls),
        reductions=tuple(sorted(ops & (REDUCTIONS | _SCANS))),
        functions=tuple(sorted(ops & FUNCTIONS)),
        dtypes=tuple(sorted({dtype for code in program.kernels.values() for dtype in code.dtypes})),
    )


def device_steps(program: Program) -> int:
    """How many kernels a call of the model runs one after the other, those of torch included."""
    return len(program.launches) + sum(_is_torch_work(call, program) for call in program.forward)


def _is_torch_work(call: Call, program: Program) -> bool:
    func = call.node.func
    if isinstance(func, ast.Attribute) and base(func.value) == "self" and func.attr in program.modules:
        return True
    if call.op.startswith("torch."):
        return call.op.rsplit(".", 1)[-1] not in _FREE_OF_WORK
    return call.op in _METHODS


def operation(program: Program) -> str:
    """The operation that a kernel file most likely is."""
    ops = _ops(program)
    modules = " ".join(program.modules.values())
    tiles = [sum(call.op in PRODUCTS for call in code.calls) for code in program.kernels.values()]
    exponential = bool(ops & EXPONENTIALS)
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
        code.ops() & (REDUCTIONS | {"atomic_add"}) or any(accumulations(code)) for code in program.kernels.values()
    )


def _multiplies(code: DeviceCode) -> bool:
    """Whether a loop adds up products of two tensors: of their tiles, or of what it loaded of both."""
    loads = {
        id(call.node): tensor(call.node.args[0], code) for call in code.calls if call.op == "load" and call.node.args
    }
    loaded = {a.name: loads[id(p)] for a in code.assignments for p in ast.walk(a.value) if id(p) in loads}
    for value in accumulations(code):
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
                if len(sliding) >= 2 and any(accumulations(code)):
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
        if code.ops() & (FUNCTIONS | {"where", "if_then_else", "maximum", "minimum", "clamp", "max", "min"}):
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
