"""Binds each name in a source to its values, by Python's rules for scopes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda
_BINDING = (ast.stmt, ast.NamedExpr, ast.comprehension, ast.withitem, ast.ExceptHandler, ast.pattern)
_NO_CODE = (ast.expr_context, ast.operator, ast.cmpop, ast.boolop, ast.unaryop)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, eq=False)
class Binding:
    """One value of a name: an imported path, an expression, a definition, or a parameter."""

    path: str | None = None
    value: ast.expr | None = None
    """The assigned expression, or a collection that contains it."""
    definition: Definition | None = None
    parameter_of: Function | None = None


@dataclass(eq=False)
class Scope:
    """The names of a module, a class, a function or a comprehension."""

    node: ast.AST
    parent: Scope | None = None
    names: dict[str, list[Binding]] = field(default_factory=dict)
    elsewhere: dict[str, Scope] = field(default_factory=dict)
    """The scopes in which 'global' and 'nonlocal' names are bound."""

    def bind(self, name: str, binding: Binding) -> None:
        """Add a value of the name in the scope where it is bound."""
        scope = self.elsewhere.get(name, self)
        scope.names.setdefault(name, []).append(binding)

    def find(self, name: str) -> list[Binding] | None:
        """Return the values of a name as seen from here; None when nothing in the file binds it."""
        scope: Scope | None = self.elsewhere.get(name, self)
        first = True
        while scope is not None:
            if name in scope.names and (first or not isinstance(scope.node, ast.ClassDef)):
                return scope.names[name]
            scope, first = scope.parent, False
        return None

    @property
    def function(self) -> Scope:
        """The scope itself, or for a comprehension the scope around it."""
        scope = self
        while isinstance(scope.node, _COMPREHENSIONS) and scope.parent is not None:
            scope = scope.parent
        return scope

    @property
    def outwards(self) -> Iterator[Scope]:
        """Yield this scope and those around it, inner ones first, as Python looks names up."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent


class Names:
    """The scopes of a whole source. Nothing here recurses, so nesting depth is not limited."""

    def __init__(self, tree: ast.Module) -> None:
        self.module = Scope(tree)
        self.stars: list[str] = []
        """Modules imported with a star."""
        self.scope_of: dict[ast.AST, Scope] = {}
        self.inner: dict[ast.AST, Scope] = {}
        """The scope that a definition or comprehension opens."""
        self.parents: dict[ast.AST, ast.AST] = {}
        self._uses: dict[str, list[ast.AST]] = {}
        stack: list[tuple[ast.AST, Scope]] = [(tree, self.module)]
        while stack:
            node, scope = stack.pop()
            self.scope_of[node] = scope
            if isinstance(node, _BINDING):
                self._bind(node, scope)
            inside = list(self._children(node, scope))
            self.parents.update((child, node) for child, _ in inside)
            stack.extend(reversed(inside))

    def surrounding(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes around this one, inner ones first."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def uses(self, name: str) -> list[ast.AST]:
        """Return the nodes that may read a name: as it is, as an attribute, in a text that is looked up."""
        if not self._uses:
            for node in self.scope_of:
                for word in _words_of(node):
                    self._uses.setdefault(word, []).append(node)
        return self._uses.get(name, [])

    def _children(self, node: ast.AST, scope: Scope) -> Iterator[tuple[ast.AST, Scope]]:
        outside: list[ast.AST] = []
        inner = scope
        if isinstance(node, Definition):
            inner = self.inner[node] = Scope(node, scope)
            inside = [node.body] if isinstance(node, ast.Lambda) else node.body
            # Decorators, defaults, annotations and bases are evaluated outside the definition.
            outside = [child for child in ast.iter_child_nodes(node) if child not in inside]
        if isinstance(node, Function):
            for argument in _arguments(node.args):
                inner.bind(argument.arg, Binding(parameter_of=node))
        if isinstance(node, _COMPREHENSIONS):
            inner = self.inner[node] = Scope(node, scope)
        if isinstance(node, ast.comprehension) and isinstance(scope.node, _COMPREHENSIONS):
            # The first iterable is evaluated outside the comprehension.
            first = scope.node.generators[0] is node and scope.parent is not None
            outside = [node.iter] if first else []
            outer = scope.parent if first else scope
        else:
            outer = scope
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, _NO_CODE):
                yield child, (outer or scope) if child in outside else inner

    def _bind(self, node: ast.AST, scope: Scope) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                path = alias.name if alias.asname else alias.name.split(".")[0]
                scope.bind(alias.asname or path, Binding(path=path))
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            for alias in node.names:
                if alias.name == "*":
                    self.stars.append(module)
                else:
                    scope.bind(alias.asname or alias.name, Binding(path=f"{module}.{alias.name}"))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            scope.bind(node.name, Binding(definition=node))
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                _bind_target(target, node.value, scope)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            _bind_target(node.target, node.value, scope)
        elif isinstance(node, ast.NamedExpr):
            _bind_target(node.target, node.value, scope.function)
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            _bind_target(node.target, None, scope)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            _bind_target(node.target, node.iter, scope)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            _bind_target(node.optional_vars, node.context_expr, scope)
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            scope.bind(node.name, Binding())
        elif isinstance(node, ast.MatchMapping) and node.rest:
            scope.bind(node.rest, Binding())
        elif isinstance(node, ast.Global):
            scope.elsewhere.update(dict.fromkeys(node.names, self.module))
        elif isinstance(node, ast.Nonlocal):
            for name in node.names:
                outer = (s for s in scope.outwards if s is not scope and name in s.names)
                scope.elsewhere[name] = next(outer, self.module)


def _words_of(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Name):
        return [] if isinstance(node.ctx, ast.Store) else [node.id]
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.Global | ast.Nonlocal):
        return node.names
    return []


def _bind_target(target: ast.expr, value: ast.expr | None, scope: Scope) -> None:
    waiting = [(target, value)]
    while waiting:
        target, value = waiting.pop()
        if isinstance(target, ast.Name):
            scope.bind(target.id, Binding(value=value))
        elif isinstance(target, ast.Starred):
            waiting.append((target.value, value))
        elif isinstance(target, ast.Tuple | ast.List):
            several = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
            parts = value.elts if several and isinstance(value, ast.Tuple | ast.List) else [value] * len(target.elts)
            waiting.extend(zip(target.elts, parts, strict=True))


def _arguments(arguments: ast.arguments) -> list[ast.arg]:
    extra = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *extra]


def positional(function: Function) -> list[str]:
    """Return the names of the parameters that can be given by position."""
    return [argument.arg for argument in [*function.args.posonlyargs, *function.args.args]]
