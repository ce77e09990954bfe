"""Changes to anything that a file does not define: modules, classes and objects of others."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .paths import broken_rule, words
from .values import Values

_CHANGES = words("update setdefault pop popitem clear __setitem__ __delitem__ __ior__")
_SETTERS = frozenset(["builtins.setattr", "builtins.delattr"])
_Found = Iterator[tuple[str, str]]


def patching_call(path: str, node: ast.Call, values: Values) -> _Found:
    """Yield the rules that a call of the function with this path breaks by changing what others define."""
    if path in _SETTERS or path.endswith((".__setattr__", ".__delattr__")):
        if node.args and _is_external(node.args[0], values) and _may_change(node.args[0], values):
            yield "patched-function", path.removeprefix("builtins.")
        holder = path.rpartition(".")[0]
        if holder and path not in _SETTERS and len(node.args) == 2 and _is_outside(holder):
            yield "patched-function", path
    if ".__dict__." in path and "()" not in path and path.rpartition(".")[2] in _CHANGES:
        yield "patched-function", path


def patching_store(node: ast.Name | ast.Attribute | ast.Subscript, values: Values) -> _Found:
    """Yield the rules that an assignment or a deletion breaks."""
    if isinstance(node, ast.Name):
        return
    if isinstance(node, ast.Attribute) and node.attr == "__class__":
        yield "lazy-result", "an object that changes its class"
    elif isinstance(node, ast.Attribute) and node.attr in ("__code__", "__builtins__"):
        yield "introspection", node.attr
    elif isinstance(node, ast.Subscript) and any(broken_rule(path) for path in values.of(node.value)):
        return  # reported where it is named
    elif _is_external(node.value, values) and _may_change(node, values):
        yield "patched-function", f"an assignment to {_short(node)}"


def _is_external(node: ast.expr, values: Values) -> bool:
    """Return whether this is a module or class from outside the file, or the class of an object."""
    if isinstance(node, ast.Attribute) and node.attr == "__class__":
        return any(not path.startswith("#") for path in values.of(node.value))
    if isinstance(node, ast.Call) and "builtins.type" in values.of(node.func) and len(node.args) == 1:
        return any(not path.startswith("#") for path in values.of(node.args[0]))
    return any(_is_outside(path) for path in values.of(node))


def _may_change(node: ast.expr, values: Values) -> bool:
    """Return False except for switches of precision and back ends, which affect only torch in this process."""
    return not any(path.startswith("torch.backends") for path in values.of(node))


def _is_outside(path: str) -> bool:
    return path[:1] not in ("?", "!", "#") and "()" not in path and not path.startswith("builtins.globals")


def _short(node: ast.AST) -> str:
    try:
        return ast.unparse(node)[:60]
    except (RecursionError, ValueError):
        return "a library"
