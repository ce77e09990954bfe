"""What flows between kernels, and which axes of the grid an expression depends on."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .program import DeviceCode, Launch, Program, base, names, products

REDUCTIONS = {"sum", "max", "min", "reduce_sum", "reduce_max", "reduce_min", "reduce_absmax", "reduce_abssum"}
PRODUCTS = {"dot", "dot_scaled", "gemm", "gemm_sp", "wgmma_gemm", "tcgen05_gemm"}
EXPONENTIALS = {"exp", "exp2", "exp10"}
_COMBINING = REDUCTIONS - {"max", "min"} | {"atomic_add"}


def grid_axes(code: DeviceCode) -> dict[str, frozenset[str]]:
    """For each variable, the axes of the grid that it depends on.

    A quotient or a remainder of a block's number counts as an axis of its own: so one axis is made into two.
    """
    known = {block: frozenset([block]) for block in code.blocks}

    def of(node: ast.expr) -> frozenset[str]:
        found: set[str] = set()
        for part in ast.walk(node):
            if isinstance(part, ast.Name):
                found |= known.get(part.id, frozenset())
            elif isinstance(part, ast.Call) and id(part) in programs:
                found.add(programs[id(part)])
        return frozenset(found)

    programs = {
        id(call.node): f"axis {ast.unparse(call.node.args[0]) if call.node.args else 0}"
        for call in code.calls
        if call.op == "program_id"
    }
    for loop in code.loops:
        if loop.call and loop.call.node.args and (axes := of(loop.call.node.args[0])):
            known.update(dict.fromkeys(loop.variables, axes))
    for assignment in code.assignments:
        if not isinstance(assignment.target, ast.Name):
            continue
        axes = of(assignment.value)
        splits = any(isinstance(part, ast.FloorDiv | ast.Mod) for part in ast.walk(assignment.value))
        if axes and splits:
            axes = frozenset([assignment.name])
        known[assignment.name] = known.get(assignment.name, frozenset()) | axes if assignment.op else axes
    return known


def axes_of(node: ast.expr, known: dict[str, frozenset[str]]) -> frozenset[str]:
    """The axes of the grid that an expression depends on."""
    return frozenset().union(*(known.get(name, frozenset()) for name in names(node)))


def tensor(node: ast.expr, code: DeviceCode, depth: int = 8) -> str:
    """The parameter that a pointer expression, an element or a descriptor belongs to; '' where it is unclear."""
    while isinstance(node, ast.BinOp | ast.Call):
        node = node.left if isinstance(node, ast.BinOp) else node.args[0] if node.args else ast.Constant(None)
    name = base(node)
    if name in code.parameters or not depth:
        return name if name in code.parameters else ""
    first = next((a.value for a in code.assignments if a.name == name and isinstance(a.target, ast.Name)), None)
    return tensor(first, code, depth - 1) if first is not None else ""


def reads_and_writes(code: DeviceCode) -> tuple[set[str], set[str]]:
    """The tensors among a kernel's parameters that it reads, and those that it writes."""
    reads: set[str] = set()
    writes: set[str] = set()
    for call in code.calls:
        arguments = call.node.args
        if call.op in (".load", ".store") and isinstance(call.node.func, ast.Attribute):
            (reads if call.op == ".load" else writes).add(base(call.node.func.value))
        elif call.op == "load" and arguments:
            reads.add(tensor(arguments[0], code))
        elif call.op in ("store", "atomic_add", "atomic_max", "atomic_min") and arguments:
            writes.add(tensor(arguments[0], code))
        elif call.op == "copy" and len(arguments) > 1:
            reads.add(base(arguments[0]))
            writes.add(base(arguments[1]))
    targets = {id(a.target) for a in code.assignments if not a.op}
    targets |= {id(call.node.args[1]) for call in code.calls if call.op == "copy" and len(call.node.args) > 1}
    for element in code.subscripts:
        if isinstance(element.value, ast.Name) and code.grid is not None:
            (writes if id(element) in targets else reads).add(element.value.id)
    writes |= {a.name for a in code.assignments if a.op and isinstance(a.target, ast.Subscript)}
    parameters = set(code.parameters)
    return reads & parameters, writes & parameters


def combines_earlier(program: Program) -> Iterator[tuple[DeviceCode, DeviceCode]]:
    """Pairs of kernels of which the second adds up what the first wrote, and reads nothing else."""
    for number, later in enumerate(program.launches):
        second = program.kernels[later.kernel]
        if not _only_adds(second):
            continue
        reads, _ = reads_and_writes(second)
        for earlier in program.launches[:number]:
            if reads and reads <= _received(program, earlier, later):
                yield program.kernels[earlier.kernel], second


def _received(program: Program, earlier: Launch, later: Launch) -> set[str]:
    """The parameters of a launch that an earlier launch has filled."""
    first, second = program.kernels[earlier.kernel], program.kernels[later.kernel]
    _, writes = reads_and_writes(first)
    filled = set(earlier.results)
    for name, given in zip(first.parameters, earlier.arguments, strict=False):
        if name in writes and not earlier.results:
            filled |= {base(given)}
    pairs = zip(second.parameters, later.arguments, strict=False)
    return {name for name, given in pairs if names(given) & (filled - {""})}


def _only_adds(code: DeviceCode) -> bool:
    ops = code.ops()
    adds = bool(ops & _COMBINING) or any(accumulations(code))
    return adds and not ops & (PRODUCTS | EXPONENTIALS)


def accumulations(code: DeviceCode) -> Iterator[ast.expr]:
    """What is added to an accumulator, step by step in a loop."""
    for loop in code.loops:
        for assignment in code.assignments[loop.assignments]:
            if assignment.op == "Add" and assignment.name not in code.parameters:
                yield assignment.value


def reduces(code: DeviceCode) -> bool:
    """Whether a kernel adds up or compares many elements, other than by products of two tensors."""
    if code.ops() & PRODUCTS:
        return False
    if code.ops() & REDUCTIONS:
        return True
    return any(not _is_product(value) for value in accumulations(code))


def _is_product(value: ast.expr) -> bool:
    return any(base(left) and base(right) and base(left) != base(right) for left, right in products(value))
