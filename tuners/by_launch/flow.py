"""Which constants of a kernel file affect which of its launches, by following values through the source.

A constant reaches a launch if it is in the kernel's text, in its arguments or grid, in the conditions under which it
is launched, or in how a tensor that it takes was made. What a launch writes into a tensor depends on no constant, or
the result would.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ...core import known_languages
from ...core.scopes import Scope, Scopes
from ...core.syntax_tree import syntax_tree

_Named = ast.FunctionDef | ast.AsyncFunctionDef
_BRANCHES = (ast.If, ast.While, ast.IfExp)
_LOOPS = (ast.For, ast.AsyncFor)


@dataclass(frozen=True)
class _Flow:
    """The sources of a value: constants, and the kernels that a call of it launches."""

    constants: frozenset[str] = frozenset()
    kernels: frozenset[str] = frozenset()

    def __or__(self, other: _Flow) -> _Flow:
        return _Flow(self.constants | other.constants, self.kernels | other.kernels)


_NOTHING = _Flow()


def constants_by_launch(source: str, constants: Collection[str]) -> Mapping[str, frozenset[str]]:
    """Return the given constants that reach each kernel that the source launches, by its function's name.

    Empty for text that is not Python, and for nesting that is too deep to follow.
    """
    try:
        return _Follower(syntax_tree(source), constants).launches()
    except (SyntaxError, ValueError, RecursionError):
        return {}


class _Follower:
    """Follows values until nothing more is found; each pass reads all statements."""

    def __init__(self, tree: ast.Module, constants: Collection[str]) -> None:
        self._scopes = Scopes(tree)
        decorators = {name for language in known_languages() for name in language.decorators}
        marked = [
            node
            for node in self._scopes.scope_of
            if isinstance(node, _Named) and any(_last_name(item) in decorators for item in node.decorator_list)
        ]
        around = {outer for node in marked for outer in self._scopes.surrounding(node)}
        self._kernels = {node for node in marked if node not in around}  # what is around one builds it
        self._methods = {
            node.name: node
            for node in self._scopes.scope_of
            if isinstance(node, _Named) and isinstance(self._scopes.parents.get(node), ast.ClassDef)
        }
        self._names: defaultdict[tuple[Scope, str], _Flow] = defaultdict(_Flow)
        self._attributes: defaultdict[str, _Flow] = defaultdict(_Flow)
        self._returned: defaultdict[ast.AST, _Flow] = defaultdict(_Flow)
        self._entered: defaultdict[ast.AST, _Flow] = defaultdict(_Flow)
        """By function, the values that decide whether it is called."""
        self._reached: defaultdict[str, frozenset[str]] = defaultdict(frozenset)
        self._seen: dict[ast.AST, _Flow] = {}
        self._open: set[ast.AST] = set()
        for name in constants:
            self._names[self._scopes.module, name] = _Flow(frozenset({name}))

    def launches(self) -> Mapping[str, frozenset[str]]:
        """Follow until a pass finds nothing new."""
        before: object = None
        while (found := self._found()) != before:
            before = found
            self._seen = {}
            for node in self._scopes.scope_of:
                self._statement(node)
        return dict(self._reached)

    def _found(self) -> object:
        tables = (self._names, self._attributes, self._returned, self._entered, self._reached)
        return [dict(table) for table in tables]

    def _statement(self, node: ast.AST) -> None:
        """Store the values that a statement binds or returns, and note its launches."""
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._store(target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._store(target, value)
            case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
                self._store(target, value)
            case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
                self._store(target, value)
            case ast.comprehension(target=target, iter=value):
                self._store(target, value)
            case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                self._store(target, value)
            case ast.Return(value=ast.expr() as value) | ast.Yield(value=ast.expr() as value):
                if (function := self._function(node)) is not None:
                    self._returned[function] |= self._flow(value) | self._context(node)
            case ast.Call():
                self._flow(node)

    def _store(self, target: ast.expr, value: ast.expr) -> None:
        flow = self._flow(value) | self._context(value)
        several = isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List)
        if several and len(target.elts) == len(value.elts):  # type: ignore[attr-defined]
            for part, given in zip(target.elts, value.elts, strict=True):  # type: ignore[attr-defined]
                self._store(part, given)
        else:
            self._keep(target, flow)

    def _keep(self, target: ast.expr, flow: _Flow) -> None:
        match target:
            case ast.Name(id=name):
                self._names[_owner(self._scopes.scope_of[target], name), name] |= flow
            case ast.Attribute(attr=name):
                self._attributes[name] |= flow
            case ast.Subscript(value=base) | ast.Starred(value=base):
                self._keep(base, flow)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self._keep(part, flow)

    def _flow(self, node: ast.AST) -> _Flow:
        """Return what went into an expression."""
        if node not in self._seen:
            self._seen[node] = self._computed(node)
        return self._seen[node]

    def _computed(self, node: ast.AST) -> _Flow:
        match node:
            case ast.Name(id=name):
                owner = _owner(self._scopes.scope_of[node], name)
                found = self._names[owner, name]
                for binding in owner.names.get(name, ()):
                    if isinstance(binding.definition, _Named):
                        found |= self._definition(binding.definition)
                return found
            case ast.Attribute(value=value, attr=name):
                return self._flow(value) | self._attributes[name]
            case ast.Call():
                return self._call(node)
            case ast.Lambda(body=body):
                return self._flow(body)
        return self._all(node)

    def _all(self, node: ast.AST) -> _Flow:
        found = _NOTHING
        for child in ast.iter_child_nodes(node):
            found |= self._flow(child)
        return found

    def _definition(self, function: _Named) -> _Flow:
        """Return the outer values in a function's text: a kernel's constants, including those of its helpers."""
        if function in self._open:
            return _NOTHING
        if function not in self._seen or self._open:
            self._open.add(function)
            self._seen[function] = self._outside_of(function)
            self._open.remove(function)
        return self._seen[function]

    def _outside_of(self, function: _Named) -> _Flow:
        found = frozenset[str]()
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                owner = _owner(self._scopes.scope_of[node], node.id).node
                if owner is not function and function not in self._scopes.surrounding(owner):
                    found |= self._computed(node).constants
        return _Flow(found, frozenset({function.name}) if function in self._kernels else frozenset())

    def _call(self, node: ast.Call) -> _Flow:
        given = _NOTHING
        for argument in [*node.args, *(item.value for item in node.keywords)]:
            given |= self._flow(argument)
        functions = self._called(node.func)
        if functions:
            result = _NOTHING
            for function in functions:
                self._enter(function, node)
                result |= self._returned[function]
            return result
        called = self._flow(node.func)
        if not called.kernels:
            return called | given
        if not any(outer in self._kernels for outer in self._scopes.surrounding(node)):
            reached = (called | given | self._context(node)).constants
            for name in called.kernels:
                self._reached[name] |= reached
        return self._result_of(called.kernels)

    def _called(self, func: ast.expr) -> list[_Named]:
        """Return the functions of the file that a call runs in Python; empty for a launch."""
        if isinstance(func, ast.Name):
            bindings = _owner(self._scopes.scope_of[func], func.id).names.get(func.id, ())
            found = [item.definition for item in bindings if isinstance(item.definition, _Named)]
        else:
            method = self._methods.get(func.attr) if isinstance(func, ast.Attribute) else None
            found = [method] if method is not None else []
        return [function for function in found if function not in self._kernels]

    def _enter(self, function: _Named, call: ast.Call) -> None:
        """Bind a function's parameters to a call's arguments."""
        scope = self._scopes.inner[function]
        arguments = function.args
        names = [item.arg for item in [*arguments.posonlyargs, *arguments.args]]
        if isinstance(call.func, ast.Attribute) and names:
            del names[0]
        rest = [item.arg for item in (arguments.vararg, arguments.kwarg) if item is not None]
        everything = [*names, *(item.arg for item in arguments.kwonlyargs), *rest]
        for place, argument in enumerate(call.args):
            starred = isinstance(argument, ast.Starred)
            for name in everything if starred else names[place : place + 1] or rest:
                self._names[scope, name] |= self._flow(argument)
        for keyword in call.keywords:
            for name in [keyword.arg] if keyword.arg in everything else everything if keyword.arg is None else rest:
                self._names[scope, str(name)] |= self._flow(keyword.value)
        self._entered[function] |= self._context(call)

    def _result_of(self, kernels: Collection[str]) -> _Flow:
        """Return the values that decide the shape of a launch's returned tensors: the annotations of its outputs."""
        found = _NOTHING
        for kernel in self._kernels:
            if kernel.name in kernels:
                annotations = [item.annotation for item in kernel.args.args if item.annotation is not None]
                places = self._out_idx(kernel)
                if places is not None and all(-len(annotations) <= place < len(annotations) for place in places):
                    annotations = [annotations[place] for place in places]
                for annotation in annotations:
                    found |= _Flow(self._flow(annotation).constants)
        return found

    def _out_idx(self, kernel: _Named) -> list[int] | None:
        """Return which of a TileLang kernel's parameters are allocated by the launch, if the text says so."""
        builder = self._function(self._scopes.parents[kernel])
        for node in ast.walk(builder) if builder is not None else ():
            if isinstance(node, ast.keyword) and node.arg == "out_idx":
                try:
                    value = ast.literal_eval(node.value)
                except (ValueError, TypeError):
                    return None
                places = value if isinstance(value, list | tuple) else [value]
                return list(places) if all(isinstance(place, int) for place in places) else None
        return None

    def _context(self, node: ast.AST) -> _Flow:
        """Return what decides whether, and how often, a node runs."""
        found, inner = _NOTHING, node
        for outer in self._scopes.surrounding(node):
            if isinstance(outer, _BRANCHES) and inner is not outer.test:
                found |= self._flow(outer.test)
            elif isinstance(outer, _LOOPS) and inner is not outer.iter:
                found |= self._flow(outer.iter)
            elif isinstance(outer, ast.Match) and inner is not outer.subject:
                found |= self._flow(outer.subject)
            elif isinstance(outer, _Named):
                return _Flow((found | self._entered[outer]).constants)
            inner = outer
        return _Flow(found.constants)

    def _function(self, node: ast.AST) -> _Named | None:
        if isinstance(node, _Named):
            return node
        return next((outer for outer in self._scopes.surrounding(node) if isinstance(outer, _Named)), None)


def _owner(scope: Scope, name: str) -> Scope:
    """Return the scope that binds a name as seen from another scope; the module's for an unbound name."""
    found: Scope | None = scope
    outermost = scope
    while found is not None:
        if found is scope or not isinstance(found.node, ast.ClassDef):
            if name in found.elsewhere:
                return found.elsewhere[name]
            if name in found.names:
                return found
        outermost, found = found, found.parent
    return outermost


def _last_name(decorator: ast.expr) -> str:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
