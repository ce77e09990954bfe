"""Parameters of functions and kernels, as their definitions and calls show them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

_PLAIN = ("jit", "heuristics", "libentry")
"""Decorators under which a launch takes options."""


def argument_of(call: ast.Call, names: Sequence[str], name: str) -> ast.expr | None:
    """Return a call's argument for a parameter; None if there is none, or it is not plain."""
    for word in call.keywords:
        if word.arg == name:
            return word.value
    return dict(positional_arguments(call, names)).get(name)


def positional_arguments(call: ast.Call, names: Sequence[str]) -> Iterator[tuple[str, ast.expr]]:
    """Yield the arguments before the first starred one, each with its parameter's name."""
    for name, value in zip(names, call.args, strict=False):
        if isinstance(value, ast.Starred):
            return
        yield name, value


def default_of(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> ast.expr | None:
    """Return the default of a parameter, or None."""
    plain = [*function.args.posonlyargs, *function.args.args]
    pairs: list[tuple[ast.arg, ast.expr | None]] = [
        *zip(reversed(plain), reversed(function.args.defaults), strict=False),
        *zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True),
    ]
    return next((default for argument, default in pairs if argument.arg == name), None)


def constexprs(kernel: ast.FunctionDef) -> list[str]:
    """Return the parameters of a kernel that are compiled into it."""
    arguments = [*kernel.args.posonlyargs, *kernel.args.args, *kernel.args.kwonlyargs]
    return [
        item.arg for item in arguments if item.annotation is not None and "constexpr" in ast.unparse(item.annotation)
    ]


def _decorators(kernel: ast.FunctionDef) -> list[tuple[str, ast.expr]]:
    found = [(item.func if isinstance(item, ast.Call) else item, item) for item in kernel.decorator_list]
    return [(ast.unparse(name).rpartition(".")[2], item) for name, item in found]


def takes_options(kernel: ast.FunctionDef) -> bool:
    """Return whether launches give a kernel its options: none of its decorators does."""
    return all(name in _PLAIN for name, _ in _decorators(kernel))


def heuristics(kernel: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    """Yield the parameters and options that heuristics give, each with the expression of its function."""
    for name, item in _decorators(kernel):
        if name == "heuristics" and isinstance(item, ast.Call):
            for values in [*item.args, *(word.value for word in item.keywords)]:
                if isinstance(values, ast.Dict):
                    for key, value in zip(values.keys, values.values, strict=True):
                        if isinstance(key, ast.Constant) and isinstance(key.value, str):
                            yield key.value, value


def single_configs(function: ast.FunctionDef) -> list[ast.Call]:
    """Return the `triton.Config(...)` calls in a function outside lists: a kernel's settings, not a choice."""
    found = []
    for statement in ast.walk(function):
        call = statement.value if isinstance(statement, ast.Return | ast.Assign) else None
        if isinstance(call, ast.Call) and ast.unparse(call.func).rpartition(".")[2] == "Config" and call.args:
            found.append(call)
    return found


def is_tile(kernel: ast.FunctionDef, name: str) -> bool:
    """Return whether a kernel with another value can be right: it goes over a range in steps, or its programs do.

    A block that only covers a whole row must have the row's size.
    """
    for node in ast.walk(kernel):
        inside: list[ast.AST] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.FloorDiv | ast.Mod):
            inside = [node.left, node.right]
        elif isinstance(node, ast.For):
            inside = list(ast.walk(node.iter))
        elif isinstance(node, ast.Call) and not ast.unparse(node.func).startswith(("tl.arange", "tl.zeros", "tl.full")):
            inside = [*node.args, *(word.value for word in node.keywords)]
        if any(isinstance(item, ast.Name) and item.id == name for item in inside):
            return True
    return False


def has_range(kernel: ast.FunctionDef, name: str) -> bool:
    """Return whether a kernel has `tl.arange(0, NAME)`."""
    calls = (node for node in ast.walk(kernel) if isinstance(node, ast.Call) and len(node.args) == 2)
    return any(ast.unparse(call) == f"tl.arange(0, {name})" for call in calls)


def builds_kernel(function: ast.FunctionDef) -> bool:
    """Return whether a function defines a kernel of TileLang in it."""
    inner = [node for node in ast.walk(function) if isinstance(node, ast.FunctionDef) and node is not function]
    return any(name == "prim_func" for node in inner for name, _ in _decorators(node))
