"""Places of constants in a candidate's texts, and the names that always have a value there."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ...core.syntax_tree import syntax_tree

_PLAIN_DECORATORS = ("staticmethod", "classmethod", "cache", "lru_cache", "no_grad", "inference_mode")
"""Decorators under which a function takes None for an argument as usual."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class PlaceKey(NamedTuple):
    """The first, second, ... place of a constant in a file's text."""

    label: str
    constant: str
    number: int


@dataclass(frozen=True)
class ConstantPlace:
    """One place of a constant, within a function."""

    key: PlaceKey
    function: str
    """The function's name, from its code object."""
    first: int
    """The lines of its statement up to the place; of a default, those of its function."""
    last: int
    names: tuple[str, ...]
    """Names that are always bound when the place is reached, the function's arguments first."""
    is_default: bool = False


def occurrences(tree: ast.Module, constants: Collection[str]) -> dict[str, list[ast.Name]]:
    """Return the places of each constant in a text, in order."""
    found: dict[str, list[ast.Name]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in constants:
            found.setdefault(node.id, []).append(node)
    return {name: sorted(nodes, key=lambda node: (node.lineno, node.col_offset)) for name, nodes in found.items()}


def all_keys(files: Mapping[str, str], constants: Collection[str]) -> list[PlaceKey]:
    """Return the keys of all places, including those outside functions."""
    return [
        PlaceKey(label, name, number)
        for label, text in files.items()
        for name, nodes in occurrences(syntax_tree(text), constants).items()
        for number in range(len(nodes))
    ]


def places(files: Mapping[str, str], constants: Collection[str]) -> list[ConstantPlace]:
    """Return the places within functions; files by their labels."""
    found = []
    for label, text in files.items():
        tree = syntax_tree(text)
        parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        for name, nodes in occurrences(tree, constants).items():
            for number, node in enumerate(nodes):
                place = _place(PlaceKey(label, name, number), node, parents)
                found += [place] if place is not None else []
    return found


def _place(key: PlaceKey, node: ast.Name, parents: Mapping[ast.AST, ast.AST]) -> ConstantPlace | None:
    names: list[str] = []
    statement: ast.stmt | None = None
    at: ast.AST = node
    while at in parents:
        above = parents[at]
        if isinstance(at, ast.stmt):
            statement = statement or at
            for body in (getattr(above, field, None) for field in ("body", "orelse", "finalbody")):
                if isinstance(body, list) and at in body:
                    names += [name for other in reversed(body[: body.index(at)]) for name in _bound_by(other)]
        if isinstance(above, ast.arguments):
            return _of_default(key, parents[above])
        if isinstance(above, _FUNCTIONS):
            where = statement or node
            lines = where.lineno, node.end_lineno or node.lineno
            name = "<lambda>" if isinstance(above, ast.Lambda) else above.name
            bound = tuple(dict.fromkeys([*_arguments(above.args), *reversed(names)]))
            return ConstantPlace(key, name, *lines, bound) if at not in getattr(above, "decorator_list", ()) else None
        if isinstance(above, ast.ClassDef):
            return None
        at = above
    return None


def _of_default(key: PlaceKey, function: ast.AST) -> ConstantPlace | None:
    """Return the place of a default that the function can replace in its first statement."""
    if not isinstance(function, ast.FunctionDef) or function.body[0].lineno == function.lineno:
        return None
    called = [item.func if isinstance(item, ast.Call) else item for item in function.decorator_list]
    if any(ast.unparse(item).rpartition(".")[2] not in _PLAIN_DECORATORS for item in called):
        return None
    names = tuple(_arguments(function.args))
    return ConstantPlace(
        key, function.name, function.lineno, function.end_lineno or function.lineno, names, is_default=True
    )


def _arguments(arguments: ast.arguments) -> Iterator[str]:
    """Yield the names of arguments, without those that may be None."""
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [*[None] * (len(plain) - len(arguments.defaults)), *arguments.defaults]
    pairs = [*zip(plain, defaults, strict=True), *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    for argument, default in pairs:
        if not (isinstance(default, ast.Constant) and default.value is None):
            yield argument.arg


def _bound_by(statement: ast.stmt) -> list[str]:
    """Return the names that a statement certainly binds to something other than None, the last first."""
    match statement:
        case ast.Assign(targets=targets, value=value) if not _may_be_none(value):
            nodes = [node for target in targets for node in ([target, *getattr(target, "elts", ())])]
            return [node.id for node in reversed(nodes) if isinstance(node, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if not _may_be_none(value):
            return [name]
    return []


def _may_be_none(value: ast.expr) -> bool:
    return any(isinstance(node, ast.Constant) and node.value is None for node in ast.walk(value))
