"""Which parts of a source can run: code that only its own tests or its main block call is skipped."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...core.scopes import Scopes

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def live_nodes(tree: ast.Module, scopes: Scopes) -> list[ast.AST]:
    """Return all nodes except the bodies of unused top-level functions and methods, and the main block."""
    main = set() if "__name__" in scopes.module.names else {s for node in tree.body for s in _main_block(node)}
    unused = {node.name: set[ast.stmt]() for node in tree.body if isinstance(node, (*_FUNCTIONS, ast.ClassDef))}
    for node in tree.body:
        # A decorator may call the function that it decorates.
        if isinstance(node, _FUNCTIONS) and not node.decorator_list:
            unused[node.name].update(node.body)
        elif isinstance(node, ast.ClassDef) and node.name != "ModelNew" and not node.decorator_list:
            # The statements of a class run when it is defined; its methods when it is used.
            unused[node.name].update(s for method in node.body if isinstance(method, _FUNCTIONS) for s in method.body)
    skipped = main.union(*unused.values())
    reached = fresh = list(_below([tree], skipped))
    while fresh:
        bodies = [body for name in set(_names_in(fresh)) for body in unused.pop(name, ())]
        fresh = list(_below(bodies, main))
        reached = reached + fresh
    return reached


def _main_block(node: ast.stmt) -> list[ast.stmt]:
    """Return the statements that run when the file is run as a program, which never happens here."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Compare) and isinstance(node.test.ops[0], ast.Eq):
        sides = [node.test.left, *node.test.comparators]
        named = any(isinstance(side, ast.Name) and side.id == "__name__" for side in sides)
        main = any(isinstance(side, ast.Constant) and side.value == "__main__" for side in sides)
        return node.body if named and main and len(sides) == 2 else []
    return []


def _below(nodes: list[ast.AST] | list[ast.stmt] | list[ast.Module], skipped: set[ast.stmt]) -> Iterator[ast.AST]:
    waiting: list[ast.AST] = [*nodes]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(child for child in ast.iter_child_nodes(node) if child not in skipped)


def _names_in(nodes: list[ast.AST]) -> Iterator[str]:
    """Yield the names that are used, also as attributes and in strings, which can be looked up."""
    for node in nodes:
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
