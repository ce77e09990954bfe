"""How a kernel computes the problem's matrix product, as far as its source shows."""

from __future__ import annotations

import ast
import functools
from collections import Counter
from collections.abc import Container, Iterable

from ..core import Kernel, Profile
from ..core.parameter_roles import ParameterRoles
from ..core.syntax_tree import syntax_tree


@functools.lru_cache(maxsize=16)
def multiplies(kernel: Kernel) -> bool:
    """Return whether a kernel multiplies tiles: it calls `dot` or `gemm`."""
    calls = (node.func for node in ast.walk(syntax_tree(kernel.source)) if isinstance(node, ast.Call))
    return any(isinstance(call, ast.Attribute) and call.attr in ("dot", "dot_scaled", "gemm") for call in calls)


@functools.lru_cache(maxsize=16)
def sums_each_step(kernel: Kernel) -> bool:
    """Return whether a kernel adds the sum of several products to another one, so that it keeps two of each result.

    `acc += dot(a, b, dot(c, d))` and `acc += dot(a, b, part)` do; of `acc += dot(a, b)` compilers make one sum.
    """
    added = (node.value for node in ast.walk(syntax_tree(kernel.source)) if isinstance(node, ast.AugAssign))
    calls = (value for value in added if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute))
    onto = (call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "dot")
    return any(len(call.args) > 2 or any(keyword.arg == "acc" for keyword in call.keywords) for call in onto)


@functools.lru_cache(maxsize=16)
def products_side_by_side(kernel: Kernel) -> int:
    """Return how many sums a loop of a kernel keeps of products with the same left operand, at least 1.

    `gate = dot(x, a, gate)` and `up += dot(x, b)` are two; `acc += dot(x, a)` and `acc += dot(x, b)` are one.
    """
    return max((_side_by_side(loop) for loop in ast.walk(syntax_tree(kernel.source)) if _is_loop(loop)), default=1)


def _side_by_side(loop: ast.AST) -> int:
    """Return the same of one loop, without the loops in it; an operand that was assigned again is another one."""
    inside = [node for node in ast.walk(loop) if node is not loop]
    deeper = {id(node) for other in inside if _is_loop(other) for node in ast.walk(other)}
    statements = [node for node in inside if isinstance(node, ast.stmt) and not _is_loop(node)]
    assigned: Counter[str] = Counter()
    sums: dict[tuple[str, tuple[int, ...]], set[str]] = {}
    for node in sorted(statements, key=lambda statement: (statement.lineno, statement.col_offset)):
        if id(node) not in deeper and (found := _added_product(node)) is not None:
            left, total = found
            operand = ast.unparse(left), tuple(assigned[name.id] for name in _names([left]))
            sums.setdefault(operand, set()).add(total)
        if isinstance(node, ast.Assign):
            assigned.update(name.id for name in _names(node.targets))
    return max([1, *map(len, sums.values())])


def _added_product(node: ast.stmt) -> tuple[ast.expr, str] | None:
    """Return the left operand and the name of the sum where a statement adds a product to a sum."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _calls(node.value, {"gemm"}):
        operands = node.value.args
        total = operands[2] if len(operands) > 2 else None
        return (operands[0], total.id) if isinstance(total, ast.Name) else None
    if isinstance(node, ast.AugAssign):
        target: ast.expr = node.target
    elif isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
    else:
        return None
    product = next(
        (item for item in ast.walk(node.value) if isinstance(item, ast.Call) and _is_of(item, {"dot"})), None
    )
    if product is None or not product.args or not isinstance(target, ast.Name):
        return None
    kept = isinstance(node, ast.AugAssign) or target.id in {name.id for name in _names([node.value])}
    return (product.args[0], target.id) if kept else None


def _is_loop(node: ast.AST) -> bool:
    return isinstance(node, ast.For | ast.While)


def _names(nodes: Iterable[ast.AST]) -> list[ast.Name]:
    return [item for node in nodes for item in ast.walk(node) if isinstance(item, ast.Name)]


@functools.lru_cache(maxsize=16)
def sums_by_tap(kernel: Kernel) -> bool:
    """Return whether a kernel multiplies in a loop over single numbers: a convolution's taps, or taps and parts.

    The loop over a whole sum goes on by a tile: `range(0, K, BLOCK_K)`. Functions of the file may multiply for it.
    """
    tree = syntax_tree(kernel.source)
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and _calls(node, {"dot"})}
    loops = (node for node in ast.walk(tree) if isinstance(node, ast.For))
    single = (loop for loop in loops if isinstance(loop.iter, ast.Call) and len(loop.iter.args) < 3)
    return any(_calls(loop, {"dot", *functions}) for loop in single)


def _calls(node: ast.AST, names: Container[str]) -> bool:
    """Return whether some code calls a function, or one of a module, by one of these names; launches are not calls."""
    return any(isinstance(item, ast.Call) and _is_of(item, names) for item in ast.walk(node))


def _is_of(call: ast.Call, names: Container[str]) -> bool:
    return getattr(call.func, "attr", None) in names or getattr(call.func, "id", None) in names


@functools.lru_cache(maxsize=16)
def function_names(kernel: Kernel) -> frozenset[str]:
    """Return the names of the functions of a kernel's source, kernels among them."""
    return frozenset(node.name for node in ast.walk(syntax_tree(kernel.source)) if isinstance(node, ast.FunctionDef))


@functools.lru_cache(maxsize=16)
def turns_tiles(kernel: Kernel, roles: ParameterRoles) -> bool:
    """Return whether the rows of a kernel's result tile are those of the role n: it allocates (n, m)."""
    calls = (node for node in ast.walk(syntax_tree(kernel.source)) if isinstance(node, ast.Call) and node.args)
    shapes = (call.args[0] for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "zeros")
    sides = (tuple(map(ast.unparse, shape.elts)) for shape in shapes if isinstance(shape, ast.Tuple | ast.List))
    return any(side == (roles.n, roles.m) for side in sides)


def seen_in(profile: Profile, kernel: Kernel) -> Profile:
    """Add to the profile how a kernel computes the problem's product.

    These are the number of sums for each result, the number of products side by side, and for a convolution whether
    taps are summed one after the other and which side of a tile has the output channels.
    """
    product = profile.product
    if product is None:
        return profile
    seen: dict[str, int | bool] = {}
    if product.sums == 1 and sums_each_step(kernel):
        seen["sums"] = 2
    if product.taps > 1 and not sums_by_tap(kernel):
        seen["taps"] = 1
    if turns_tiles(kernel, ParameterRoles.of(tuple(kernel.config))):
        seen["turned"] = True
    elif (together := products_side_by_side(kernel)) > 1:
        seen["side_by_side"] = together
    return profile.model_copy(update={"product": product.model_copy(update=seen)}) if seen else profile
