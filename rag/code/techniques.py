"""Which optimization techniques a kernel has, told from its syntax tree.

Names, comments and texts count for nothing: a variable called `swizzle` is none. What no tree shows is not claimed:
recomputation looks like any computation, and whether copies become TMA is for TileLang's compiler to say.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from ...core import TECHNIQUES
from .accumulators import online
from .cpu_techniques import CPU_RECOGNIZERS, inner_strides
from .features import device_steps
from .gpu_techniques import GPU_RECOGNIZERS
from .program import Program, sequential
from .syntax import parse

Recognizer = Callable[[Program], bool]


def techniques(source: str | Program) -> frozenset[str]:
    """The techniques that a kernel has. Raises SyntaxError or ValueError for what is no Python."""
    program = parse(source) if isinstance(source, str) else source
    recognizers = {**COMMON_RECOGNIZERS, **(CPU_RECOGNIZERS if program.cpu else GPU_RECOGNIZERS)}
    return frozenset(name for name, recognize in recognizers.items() if recognize(program))


def added(before: str, after: str) -> tuple[str, ...]:
    """The techniques that the second kernel has and the first has not, in the order of `TECHNIQUES`."""
    first, second = parse(before), parse(after)
    found = set(techniques(second) - techniques(first)) - {"fusion"}
    if device_steps(second) < device_steps(first):
        found.add("fusion")
    if all(all(inner_strides(code)) for code in first.kernels.values()):
        found.discard("loop-order")  # a nest that was not there before had no order to mend
    if not found and _same_but_for_sizes(before, after):
        found.add("launch-tuning")
    return tuple(name for name in TECHNIQUES if name in found)


def _same_but_for_sizes(before: str, after: str) -> bool:
    """Whether two kernels differ, and in nothing but literals: constants, arguments of launches."""
    trees = [_without_texts(ast.parse(source)) for source in (before, after)]
    exact = [ast.dump(tree) for tree in trees]
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
                node.value = 0
    blurred = [ast.dump(tree) for tree in trees]
    return exact[0] != exact[1] and blurred[0] == blurred[1]


def _without_texts(tree: ast.Module) -> ast.Module:
    """Without docstrings and without the space to search."""
    kept = []
    for node in tree.body:
        names = [target.id for target in getattr(node, "targets", ()) if isinstance(target, ast.Name)]
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not text and not {"SEARCH_SPACE", "CONSTRAINTS"} & set(names):
            kept.append(node)
    return ast.Module(body=kept, type_ignores=[])


def _fused(program: Program) -> bool:
    """One kernel is all there is, and it does work of several kinds."""
    if device_steps(program) != 1:
        return False
    kinds = set()
    for code in program.kernels.values():
        ops = code.ops()
        kinds |= {kind for kind, members in _KINDS.items() if ops & members}
    return len(kinds) > 1


_KINDS = {
    "product": {"dot", "gemm", "dot_scaled", "wgmma_gemm"},
    "reduction": {"sum", "max", "reduce_sum", "reduce_max", "cumsum", "associative_scan"},
    "function": {"exp", "exp2", "log", "sigmoid", "tanh", "erf", "sqrt", "rsqrt", "sin", "cos", "clamp"},
}


def _scan(program: Program) -> bool:
    ops = {"associative_scan", "cumsum", "cumprod", "cummax"}
    return any(code.ops() & ops for code in program.kernels.values())


def _unrolled(program: Program) -> bool:
    """Loops that are written out by the compiler, because the text says so."""
    for code in program.kernels.values():
        for loop in code.loops:
            if loop.kind in ("unroll", "static_range", "Unroll"):
                return True
            if loop.call is not None and loop.call.keyword("loop_unroll_factor") is not None:
                return True
    return False


def _online(program: Program) -> bool:
    return any(online(code, loop) for code in program.kernels.values() for loop in sequential(code))


COMMON_RECOGNIZERS: dict[str, Recognizer] = {
    "fusion": _fused,
    "online-reduction": _online,
    "scan": _scan,
    "unrolling": _unrolled,
}
