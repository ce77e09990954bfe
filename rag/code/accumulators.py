"""What a loop does to its accumulators."""

from __future__ import annotations

import ast

from .flow import EXPONENTIALS
from .program import Call, DeviceCode, Loop, Program, base, in_loop, names

_MAXIMA = {"max", "maximum", "reduce_max", "argmax"}


def online(code: DeviceCode, loop: Loop) -> bool:
    """A running result is corrected while data streams by: rescaled when the maximum grows, or moved as a mean is."""
    if loop.kind == "":
        return False
    calls, assignments, _ = in_loop(code, loop)
    exponentials = {id(call.node) for call in calls if call.op in EXPONENTIALS}
    maxima = {id(call.node) for call in calls if call.op in _MAXIMA}
    if maxima and exponentials:
        factors = {a.name for a in assignments if _holds(a.value, exponentials)}
        for assignment in assignments:
            name = assignment.name
            rescales = names(assignment.value) & factors or _holds(assignment.value, exponentials)
            if assignment.op == "Mult" and rescales:
                return True
            for product in _products(assignment.value):
                sides = (product.left, product.right)
                for old, factor in (sides, sides[::-1]):
                    scales = _holds(factor, exponentials) or bool(names(factor) & (factors - {name}))
                    if base(old) == name and scales:
                        return True
    # Welford: delta = x - mean, then mean += delta * ...
    deltas = {
        (a.name, base(a.value.right))
        for a in assignments
        if isinstance(a.value, ast.BinOp) and isinstance(a.value.op, ast.Sub) and not a.op
    }
    return any(
        a.op == "Add" and (delta, a.name) in deltas
        for a in assignments
        for delta in names(a.value)
        if not isinstance(a.value, ast.Name)
    )


def _holds(node: ast.expr, calls: set[int]) -> bool:
    return any(id(part) in calls for part in ast.walk(node))


def _products(node: ast.expr) -> list[ast.BinOp]:
    return [part for part in ast.walk(node) if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mult)]


def innermost(code: DeviceCode, loop: Loop) -> bool:
    """Whether no other loop stands in it."""
    return not code.loops[loop.loops]


def elements(shape: ast.expr | None, value_of: object) -> list[int | None]:
    """The sizes in a shape such as `(BLOCK_M, BLOCK_N)`, None where one is unknown."""
    parts = shape.elts if isinstance(shape, ast.Tuple | ast.List) else [shape] if shape is not None else []
    assert callable(value_of)
    found = [value_of(part) for part in parts]
    return [value if isinstance(value, int) else None for value in found]


def allocations(code: DeviceCode, *kinds: str) -> dict[str, Call]:
    """The buffers that a TileLang kernel allocates by these functions."""
    calls = {id(call.node): call for call in code.calls if call.op in kinds}
    return {a.name: calls[id(a.value)] for a in code.assignments if id(a.value) in calls}


def first_argument(call: Call) -> ast.expr | None:
    """Return the first positional argument of a call, or None."""
    return call.node.args[0] if call.node.args else None


def any_call(program: Program, *ops: str) -> bool:
    """Whether some kernel calls one of these functions."""
    return any(code.ops() & set(ops) for code in program.kernels.values())
