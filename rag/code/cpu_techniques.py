"""Techniques of TileLang kernels for the CPU."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from itertools import starmap

from .accumulators import allocations, elements, innermost
from .program import DeviceCode, Loop, Program, is_tile_product, names, products

_POOLS = ("concurrent.futures.ThreadPoolExecutor", "concurrent.futures.thread.ThreadPoolExecutor", "threading.Thread")
_REGISTERS = 512
"""Single-precision numbers that 32 vector registers of 512 bits hold; a larger tile lives in the cache."""


def _threads(program: Program) -> bool:
    """Parts of the work are handed to a pool of threads."""
    ops = {call.op for call in program.host}
    return bool(ops & set(_POOLS)) and bool(ops & {".submit", ".map", ".start"})


def _register_tile(program: Program) -> bool:
    """Sums of products for several results at once, few enough for registers."""
    for code in program.kernels.values():
        tiles = {
            name: elements(call.node.args[0] if call.node.args else None, lambda n, c=code: program.value(n, c))
            for name, call in allocations(code, "alloc_local", "alloc_fragment").items()
        }
        for loop in code.loops:
            for assignment in code.assignments[loop.assignments]:
                sizes = tiles.get(assignment.name)
                if assignment.op != "Add" or not sizes or not any(starmap(is_tile_product, products(assignment.value))):
                    continue
                count = 1
                for size in sizes:
                    count *= size or _REGISTERS + 1
                unrolled = any(x.kind == "unroll" for x in code.loops[loop.loops])
                if 2 <= count <= _REGISTERS or (unrolled and count > 1):
                    return True
    return False


def inner_strides(code: DeviceCode) -> Iterator[bool]:
    """For every element that an innermost loop of a nest moves through: whether it moves by one."""
    for loop in code.loops:
        # The grid is a nest of loops too.
        if not innermost(code, loop) or not loop.variables:
            continue
        variable = loop.variables[-1]
        for element in code.subscripts[loop.reads]:
            index = element.slice.elts if isinstance(element.slice, ast.Tuple) else [element.slice]
            holding = [part for part in index if variable in names(part)]
            if holding:
                yield holding == [index[-1]] and not _multiplied(index[-1], variable)


def _multiplied(node: ast.expr, variable: str) -> bool:
    return any(
        isinstance(part, ast.BinOp) and not isinstance(part.op, ast.Add | ast.Sub) and variable in names(part)
        for part in ast.walk(node)
    )


def _loop_order(program: Program) -> bool:
    """In every nest the innermost loop walks contiguous memory."""
    steps = [step for code in program.kernels.values() for step in inner_strides(code)]
    return bool(steps) and all(steps)


def _vectorized(program: Program) -> bool:
    return any(loop.kind == "vectorized" for code in program.kernels.values() for loop in code.loops)


def _lanes(code: DeviceCode, loop: Loop) -> bool:
    """A loop over a small local buffer, inside another loop, each of whose elements accumulates on its own."""
    local = allocations(code, "alloc_local")
    inside = [x for x in code.loops if x is not loop and loop in code.loops[x.loops]]
    if len(loop.variables) != 1 or not inside:
        return False
    for assignment in code.assignments[loop.assignments]:
        target = assignment.target
        if not isinstance(target, ast.Subscript) or assignment.name not in local:
            continue
        accumulates = assignment.op == "Add" or assignment.name in names(assignment.value)
        if accumulates and isinstance(target.slice, ast.Name) and target.slice.id == loop.variables[0]:
            return True
    return False


def _unrolled(program: Program) -> bool:
    """Loops that are written out, or accumulators in lanes that do not wait for each other."""
    for code in program.kernels.values():
        if any(loop.kind == "unroll" or _lanes(code, loop) for loop in code.loops):
            return True
    return False


CPU_RECOGNIZERS: dict[str, Callable[[Program], bool]] = {
    "threads": _threads,
    "register-tiling": _register_tile,
    "loop-order": _loop_order,
    "vectorized-access": _vectorized,
    "unrolling": _unrolled,
}
