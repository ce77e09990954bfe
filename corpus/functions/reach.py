"""The modules that a candidate may change: from a function to the kernels that it launches, as far as texts show."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from .modules import ModuleText, UserModules, is_kernel
from .signatures import single_configs

MOST_LINES = 4000
"""Maximum number of lines of all modules; kernels beyond that are left unmodified."""
MOST_NAMES = 500
"""Maximum number of definitions to read; a logger alone can lead through hundreds of modules."""
_BACKWARD = ("backward", "vjp", "jvp")
"""Methods of a `torch.autograd.Function` that do not run in a call."""


@dataclass
class Reach:
    """The names and modules on which a function's source depends."""

    modules: list[ModuleText]
    """Each after those that it takes from; the function's own is the last."""
    kernels: dict[str, list[ast.FunctionDef]] = field(default_factory=dict)
    """The decorated functions at the top level of each module, which the function leads to, by the module's name."""
    called: set[tuple[str, str]] = field(default_factory=set)
    """Module and name of each definition that a call of the function may use; not those of its gradients alone."""


def reach(modules: UserModules, start: ModuleText, name: str) -> Reach:
    """Follow a name of a module through the names in its definition. Unknown names are left out."""
    walk = _NameWalk(modules)
    walk.follow(start, name.partition(".")[0])
    kept = {start.name}
    for place in walk.kernels:  # the nearest first
        more = kept | walk.between(start.name, place)
        texts = [there.text for item in more if (there := modules.get(item)) is not None]
        if sum(text.count("\n") for text in texts) <= MOST_LINES:
            kept = more
    order = [item for item in walk.order() if item in kept and item != start.name]
    found = [module for item in order if (module := modules.get(item)) is not None]
    return Reach([*found, start], walk.kernels, _called(modules, start, name))


def _called(modules: UserModules, start: ModuleText, name: str) -> set[tuple[str, str]]:
    top, _, method = name.partition(".")
    walk = _NameWalk(modules, with_gradients=method in _BACKWARD)
    walk.follow(start, top)
    return walk.seen


class _NameWalk:
    """Reads definitions, the nearest first."""

    def __init__(self, modules: UserModules, with_gradients: bool = True) -> None:
        self._modules = modules
        self._with_gradients = with_gradients
        self._asked: deque[tuple[ModuleText, str]] = deque()
        self.seen: set[tuple[str, str]] = set()
        self._takes: dict[str, dict[str, None]] = {}
        """By module: those that it takes something from."""
        self.kernels: dict[str, list[ast.FunctionDef]] = {}

    def follow(self, module: ModuleText, name: str) -> None:
        """Note a name, wherever it is defined, and recursively the names in its definition."""
        self._ask(module, name)
        while self._asked and len(self.seen) < MOST_NAMES:
            self._visit(*self._asked.popleft())

    def _ask(self, module: ModuleText, name: str, asked_by: str | None = None) -> None:
        if asked_by is not None and asked_by != module.name:
            self._takes.setdefault(asked_by, {})[module.name] = None
        self._asked.append((module, name))

    def _visit(self, module: ModuleText, name: str) -> None:
        if (module.name, name) in self.seen:
            return
        self.seen.add((module.name, name))
        self._takes.setdefault(module.name, {})
        if name in module.definitions:
            for statement in module.definitions[name]:
                if isinstance(statement, ast.FunctionDef) and is_kernel(statement):
                    self.kernels.setdefault(module.name, []).append(statement)
                elif any(isinstance(node, ast.FunctionDef) and is_kernel(node) for node in ast.walk(statement)):
                    self.kernels.setdefault(module.name, [])  # within a function that builds it
                elif isinstance(statement, ast.FunctionDef) and single_configs(statement):
                    self.kernels.setdefault(module.name, [])
                for path in _paths(statement, self._with_gradients):
                    self._mentioned(module, path)
        elif name in module.imports:
            self._mentioned(module, (name,))
        else:
            for other in module.stars:
                if (there := self._modules.get(other)) is not None:
                    self._ask(there, name, module.name)

    def _mentioned(self, module: ModuleText, path: tuple[str, ...]) -> None:
        first, *rest = path
        if first in module.definitions:
            self._ask(module, first)
            return
        if first not in module.imports:
            if module.stars:
                self._ask(module, first)
            return
        where, name = module.imports[first]
        rest = [*([name] if name is not None else []), *rest]
        while rest and self._modules.get(f"{where}.{rest[0]}") is not None and not self._defines(where, rest[0]):
            where = f"{where}.{rest.pop(0)}"
        if rest and (there := self._modules.get(where)) is not None:
            self._ask(there, rest[0], module.name)

    def _defines(self, module: str, name: str) -> bool:
        there = self._modules.get(module)
        return there is not None and name in there.definitions

    def between(self, start: str, end: str) -> set[str]:
        """Return the modules on the paths from one to another, both included."""
        reaches = {end}
        while True:
            more = {name for name, taken in self._takes.items() if name not in reaches and reaches & taken.keys()}
            if not more:
                break
            reaches |= more
        return {name for name in self._from(start) if name in reaches}

    def _from(self, start: str) -> set[str]:
        found, open_ = {start}, [start]
        while open_:
            for name in self._takes.get(open_.pop(), {}):
                if name not in found:
                    found.add(name)
                    open_.append(name)
        return found

    def order(self) -> list[str]:
        """Return all modules, each after those that it takes from."""
        done: dict[str, None] = {}
        open_: set[str] = set()

        def place(name: str) -> None:
            if name in done or name in open_:
                return
            open_.add(name)
            for other in self._takes.get(name, {}):
                place(other)
            done[name] = None

        for name in self._takes:
            place(name)
        return list(done)


def nodes_of(statement: ast.AST, with_gradients: bool = True) -> Iterator[ast.AST]:
    """Yield the nodes of a statement, each before those in it; on request without the methods for gradients."""
    open_ = [statement]
    while open_:
        node = open_.pop()
        yield node
        inside = list(ast.iter_child_nodes(node))
        if not with_gradients and isinstance(node, ast.ClassDef) and any(map(_is_function_class, node.bases)):
            inside = [item for item in inside if getattr(item, "name", None) not in _BACKWARD]
        open_ += reversed(inside)


def _is_function_class(base: ast.expr) -> bool:
    return ast.unparse(base).rpartition(".")[2] == "Function"


def _paths(statement: ast.stmt, with_gradients: bool) -> Iterator[tuple[str, ...]]:
    """Yield the names that a statement mentions, with the attributes that are taken of them."""
    inner: set[ast.AST] = set()
    for node in nodes_of(statement, with_gradients):
        if node in inner:
            continue
        parts: list[str] = []
        at: ast.AST = node
        while isinstance(at, ast.Attribute):
            inner.add(at)
            parts.insert(0, at.attr)
            at = at.value
        if isinstance(at, ast.Name):
            inner.add(at)
            yield (at.id, *parts)
