"""The scopes of a Python source: what each name in it may stand for, by Python's rules."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda
# Nodes are distinguished by their types, which takes a fraction of `isinstance`: every candidate is read here.
_COMPREHENSIONS = frozenset([ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp])
_NO_CODE = frozenset(
    kind
    for base in (ast.expr_context, ast.operator, ast.cmpop, ast.boolop, ast.unaryop)
    for kind in base.__subclasses__()
)


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
        scope: Scope | None = self
        while scope is not None:
            if scope is self or type(scope.node) is not ast.ClassDef:
                holder = scope.elsewhere.get(name, scope)
                if holder is not scope or name in scope.names:
                    return holder.names.get(name)
            scope = scope.parent
        return None

    def around(self, name: str) -> Scope | None:
        """Return the scope in which a function around this one binds the name."""
        scope = self.parent
        while scope is not None and (type(scope.node) is ast.ClassDef or name not in scope.names):
            scope = scope.elsewhere.get(name, scope.parent)
        return scope

    @property
    def function(self) -> Scope:
        """The scope itself, or for a comprehension the scope around it."""
        scope = self
        while type(scope.node) in _COMPREHENSIONS and scope.parent is not None:
            scope = scope.parent
        return scope


class Scopes:
    """The scopes of a whole source. Nothing here recurses, so nesting depth is not limited."""

    def __init__(self, tree: ast.Module) -> None:
        self.module = Scope(tree)
        self.stars: list[str] = []
        """Modules imported with a star."""
        self.scope_of: dict[ast.AST, Scope] = {}
        """The scope that each node is in."""
        self.inner: dict[ast.AST, Scope] = {}
        """The scope that a definition or comprehension opens."""
        self.parents: dict[ast.AST, ast.AST] = {}
        self._uses: dict[str, list[ast.AST]] = {}
        # A function's body is read after all that is around it, since a 'nonlocal' may stand before its assignment.
        self._bodies: list[tuple[ast.AST, Scope]] = [(tree, self.module)]
        for body in self._bodies:
            stack = [body]
            while stack:
                node, scope = stack.pop()
                self.scope_of[node] = scope
                if (bind := _BINDERS.get(type(node))) is not None:
                    bind(self, node, scope)
                stack.extend(reversed(self._inside(node, scope)))

    def find(self, node: ast.Name) -> list[Binding] | None:
        """Return the values of a name; None when nothing in the file binds it."""
        return self.scope_of[node].find(node.id)

    def imported(self, node: ast.expr) -> str | None:
        """Return the path of a name, or of attributes of one, that an import binds, such as 'triton.language.dot'.

        Of several imports the last one counts. Relative ones have no path.
        """
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        bindings = self.find(node) if isinstance(node, ast.Name) else None
        paths = [binding.path for binding in bindings or () if binding.path and not binding.path.startswith(".")]
        return ".".join([paths[-1], *reversed(parts)]) if paths else None

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

    def _inside(self, node: ast.AST, scope: Scope) -> list[tuple[ast.AST, Scope]]:
        """Return the nodes in a node that are read with it, each with its scope."""
        children = _children(node)
        for child in children:
            self.parents[child] = node
        if isinstance(node, Definition):
            inner = self.inner[node] = Scope(node, scope)
            if not isinstance(node, ast.ClassDef):
                for argument in _arguments(node.args):
                    inner.bind(argument.arg, Binding(parameter_of=node))
            # Decorators, defaults, annotations and bases are evaluated outside the definition.
            inside = {node.body} if isinstance(node, ast.Lambda) else {*node.body}
            self._bodies += [(child, inner) for child in children if child in inside]
            children = [child for child in children if child not in inside]
        elif type(node) in _COMPREHENSIONS:
            scope = self.inner[node] = Scope(node, scope)
        elif isinstance(node, ast.comprehension) and scope.parent is not None:
            # The first iterable is evaluated outside the comprehension.
            outside = node.iter if node is getattr(scope.node, "generators", [None])[0] else None
            return [(child, scope.parent if child is outside else scope) for child in children]
        return [(child, scope) for child in children]


def _children(node: ast.AST) -> list[ast.AST]:
    """Return the nodes directly in a node that are code: no operators, and not how a name is used."""
    children: list[ast.AST] = []
    for name in node._fields:
        value = getattr(node, name, None)
        if type(value) is list:
            children.extend(part for part in value if isinstance(part, ast.AST))
        elif isinstance(value, ast.AST):
            children.append(value)
    return [child for child in children if type(child) not in _NO_CODE]


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


def _bind_import(scopes: Scopes, node: ast.Import, scope: Scope) -> None:
    for alias in node.names:
        path = alias.name if alias.asname else alias.name.split(".")[0]
        scope.bind(alias.asname or path, Binding(path=path))


def _bind_import_from(scopes: Scopes, node: ast.ImportFrom, scope: Scope) -> None:
    module = "." * node.level + (node.module or "")
    for alias in node.names:
        if alias.name == "*":
            scopes.stars.append(module)
        else:
            scope.bind(alias.asname or alias.name, Binding(path=f"{module}.{alias.name}"))


def _bind_assign(scopes: Scopes, node: ast.Assign, scope: Scope) -> None:
    for target in node.targets:
        _bind_target(target, node.value, scope)


def _bind_with(scopes: Scopes, node: ast.withitem, scope: Scope) -> None:
    if node.optional_vars is not None:
        _bind_target(node.optional_vars, node.context_expr, scope)


def _bind_unknown(name: str | None, scope: Scope) -> None:
    if name:
        scope.bind(name, Binding())


def _bind_nonlocal(scopes: Scopes, node: ast.Nonlocal, scope: Scope) -> None:
    for name in node.names:
        scope.elsewhere[name] = scope.around(name) or scopes.module


_BINDERS: Mapping[type[ast.AST], Callable[[Scopes, Any, Scope], object]] = {
    ast.Import: _bind_import,
    ast.ImportFrom: _bind_import_from,
    **dict.fromkeys(
        (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
        lambda scopes, node, scope: scope.bind(node.name, Binding(definition=node)),
    ),
    ast.Assign: _bind_assign,
    ast.AnnAssign: lambda scopes, node, scope: _bind_target(node.target, node.value, scope),
    ast.AugAssign: lambda scopes, node, scope: _bind_target(node.target, None, scope),
    ast.NamedExpr: lambda scopes, node, scope: _bind_target(node.target, node.value, scope.function),
    **dict.fromkeys(
        (ast.For, ast.AsyncFor, ast.comprehension),
        lambda scopes, node, scope: _bind_target(node.target, node.iter, scope),
    ),
    ast.withitem: _bind_with,
    **dict.fromkeys(
        (ast.ExceptHandler, ast.MatchAs, ast.MatchStar),
        lambda scopes, node, scope: _bind_unknown(node.name, scope),
    ),
    ast.MatchMapping: lambda scopes, node, scope: _bind_unknown(node.rest, scope),
    ast.Global: lambda scopes, node, scope: scope.elsewhere.update(dict.fromkeys(node.names, scopes.module)),
    ast.Nonlocal: _bind_nonlocal,
}


def _arguments(arguments: ast.arguments) -> list[ast.arg]:
    extra = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *extra]


def positional(function: Function) -> list[str]:
    """Return the names of the parameters that can be given by position."""
    return [argument.arg for argument in [*function.args.posonlyargs, *function.args.args]]
