"""Finds the possible values of an expression, as far as the source shows them.

A value is a set of paths. 'torch.nn.Linear' is the import of that name, 'torch.nn.Linear()' the result of calling it,
'#3' a definition in the file, '#3()' an instance of such a class, '!' something harmless, '?' anything. Assignments
count together, in whatever order they run; a list stands for its elements.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable

from ...core import known_languages
from ...core.scopes import Binding, Definition, Function, Scopes, positional
from .paths import canonical, words

Value = frozenset[str]
ANYTHING: Value = frozenset("?")
NOTHING: Value = frozenset()
HARMLESS: Value = frozenset("!")
_DEPTH = 60
_BUILTINS = frozenset(dir(builtins))
_COLLECTIONS = words("list tuple set frozenset dict iter next reversed zip enumerate sorted filter map")
_GETTERS = words("builtins.getattr builtins.object.__getattribute__ torch.nn.Module.__getattr__")
_LOOKUPS = words("__getattr__ __getattribute__")
_COPIES = words("copy.copy copy.deepcopy functools.partial")
_CONTAINERS = words("torch.nn.Sequential torch.nn.ModuleList torch.nn.ModuleDict")
_ADD_ATTRIBUTE = words("add_module register_module register_parameter register_buffer __setattr__")
_ALL_ATTRIBUTES = words("children modules named_children named_modules _modules get_submodule __dict__")


class Values:
    """Reads the expressions of one source."""

    def __init__(self, tree: ast.Module) -> None:
        self.scopes = Scopes(tree)
        self.definitions: list[Definition] = []
        self._index: dict[ast.AST, str] = {}
        self._known: dict[ast.AST | Binding, Value] = {}
        self._attributes: dict[ast.ClassDef, dict[str, list[ast.expr]]] = {}
        self._calls: dict[str, list[ast.Call]] = {}
        """Calls by the last part of the called name."""
        self._looked_up: dict[tuple[str, str], Value] = {}
        self._returns: dict[ast.AST, list[ast.expr]] = {}
        for node in self.scopes.scope_of:
            self._collect(node)

    def of(self, node: ast.AST | None, depth: int = 0) -> Value:
        """Return the possible values of the expression."""
        if node is None or depth > _DEPTH:
            return ANYTHING
        if node not in self._known:
            self._known[node] = NOTHING  # a recursive visit adds nothing
            self._known[node] = self._read(node, depth + 1)
        return self._known[node]

    def is_kernel(self, node: ast.AST) -> bool:
        """Return whether this defines a function in the kernel language."""
        return isinstance(node, ast.FunctionDef) and any(
            _makes_device_code(path.removesuffix("()"))
            for decorator in node.decorator_list
            for path in self.of(decorator)
        )

    def text(self, node: ast.AST | None, depth: int = 0) -> str | None:
        """Return the string that a constant expression evaluates to; None where it is not known."""
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else None
        if depth > 8:
            return None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = self.text(node.left, depth + 1), self.text(node.right, depth + 1)
            return None if left is None or right is None else left + right
        if isinstance(node, ast.JoinedStr):
            parts = [self.text(part, depth + 1) for part in node.values]
            return None if None in parts else "".join(part or "" for part in parts)
        if isinstance(node, ast.FormattedValue) and node.format_spec is None and node.conversion == -1:
            return self.text(node.value, depth + 1)
        if isinstance(node, ast.Name):
            found = self.scopes.find(node) or []
            return self.text(found[0].value, depth + 1) if len(found) == 1 else None
        return None

    def _collect(self, node: ast.AST) -> None:
        if isinstance(node, Definition):
            self._index[node] = f"#{len(self.definitions)}"
            self.definitions.append(node)
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            self._calls.setdefault(called, []).append(node)
            if called in _ADD_ATTRIBUTE or called == "setattr":
                self._add_attribute(node, called)
        elif isinstance(node, ast.Return) and node.value is not None:
            function = next((n for n in self.scopes.surrounding(node) if isinstance(n, Function)), None)
            if function is not None:
                self._returns.setdefault(function, []).append(node.value)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            parent = self.scopes.parents[node]
            value = getattr(parent, "value", None) or getattr(parent, "iter", None)
            if isinstance(value, ast.expr):
                self._set(node.value, node.attr, value)

    def _add_attribute(self, node: ast.Call, called: str) -> None:
        holder: ast.expr | None = node.func.value if isinstance(node.func, ast.Attribute) else None
        arguments = node.args
        if called == "setattr" and arguments:
            holder, arguments = arguments[0], arguments[1:]
        if holder is not None and len(arguments) == 2:
            self._set(holder, self.text(arguments[0]) or "*", arguments[1])

    def _set(self, holder: ast.expr, name: str, value: ast.expr) -> None:
        owner = self._self_class(holder)
        if owner is not None:
            self._attributes.setdefault(owner, {}).setdefault(name, []).append(value)

    def _self_class(self, node: ast.expr) -> ast.ClassDef | None:
        """Return the class whose methods call this expression 'self'."""
        if not isinstance(node, ast.Name):
            return None
        for binding in self.scopes.find(node) or []:
            function = binding.parameter_of
            if function is not None and positional(function)[:1] == [node.id]:
                parent = self.scopes.parents.get(function)
                return parent if isinstance(parent, ast.ClassDef) else None
        return None

    def _read(self, node: ast.AST, depth: int) -> Value:
        match node:
            case ast.Name():
                return self._name(node, depth)
            case ast.Attribute():
                return _union(self.attribute(path, node.attr, depth) for path in self.of(node.value, depth))
            case ast.Call():
                return _union(self._call(path, node, depth) for path in self.of(node.func, depth))
            case ast.Subscript():
                return _union(self._element(path, node.slice, depth) for path in self.of(node.value, depth))
            case ast.NamedExpr() | ast.Starred() | ast.Await() | ast.DictComp():
                return self.of(node.value, depth)
            case ast.IfExp():
                return self.of(node.body, depth) | self.of(node.orelse, depth)
            case ast.BoolOp():
                return _union(self.of(value, depth) for value in node.values)
            case ast.List() | ast.Tuple() | ast.Set():
                return HARMLESS | _union(self.of(element, depth) for element in node.elts)
            case ast.Dict():
                return HARMLESS | _union(self.of(value, depth) for value in node.values)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                return HARMLESS | self.of(node.elt, depth)
            case ast.Lambda():
                return frozenset([self._index[node]])
            case ast.Constant() | ast.JoinedStr() | ast.Compare():
                return HARMLESS
        return ANYTHING

    def _name(self, node: ast.Name, depth: int) -> Value:
        bindings = self.scopes.find(node)
        if bindings is not None:
            return _union(self._binding(binding, node.id, depth) for binding in bindings)
        if node.id == "__builtins__":
            return frozenset(["builtins"])
        if node.id in _BUILTINS:
            return frozenset([f"builtins.{node.id}"])
        return frozenset(canonical(f"{star}.{node.id}") for star in self.scopes.stars) or ANYTHING

    def _binding(self, binding: Binding, name: str, depth: int) -> Value:
        if binding.path is not None:
            return frozenset([canonical(binding.path)])
        if binding.definition is not None:
            return frozenset([self._index[binding.definition]])
        if binding.parameter_of is not None:
            if binding not in self._known:
                self._known[binding] = NOTHING
                self._known[binding] = self._parameter(binding.parameter_of, name, depth)
            return self._known[binding]
        return self.of(binding.value, depth)

    def _parameter(self, function: Function, name: str, depth: int) -> Value:
        """Return the arguments of calls in this file, the type in the annotation, and anything."""
        owner = self.scopes.parents.get(function)
        names = positional(function)
        method = isinstance(owner, ast.ClassDef)
        if isinstance(owner, ast.ClassDef) and names[:1] == [name]:
            return frozenset([f"{self._index[owner]}()"])
        found = set(ANYTHING)
        place = names.index(name) if name in names else None
        called = getattr(function, "name", "")
        if method and called == "__init__":
            called = getattr(owner, "name", "")
        for call in self._calls.get(called, []) if called else []:
            given = [keyword.value for keyword in call.keywords if keyword.arg == name]
            given += call.args[place - method :][:1] if place is not None else []
            found.update(*(self.of(value, depth) for value in given))
        arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        annotation = next((argument.annotation for argument in arguments if argument.arg == name), None)
        if annotation is not None:
            found.update(f"{path}()" for path in self.of(annotation, depth) if path.startswith("torch.nn."))
        return frozenset(found)

    def attribute(self, path: str, name: str, depth: int = 0) -> Value:
        """Return the possible values of this attribute."""
        if path in ("?", "!"):
            return frozenset([path])
        if name == "__class__" and path.endswith("()"):
            return frozenset([path.removesuffix("()")])
        if not path.startswith("#"):
            return frozenset([canonical(f"{path}.{name}")])
        if (path, name) not in self._looked_up:
            self._looked_up[path, name] = NOTHING
            self._looked_up[path, name] = self._own_attribute(path, name, depth)
        return self._looked_up[path, name]

    def _own_attribute(self, path: str, name: str, depth: int) -> Value:
        definition = self._definition(path)
        if not isinstance(definition, ast.ClassDef):
            return ANYTHING
        attributes = self._attributes.get(definition, {})
        if name in _ALL_ATTRIBUTES:
            return ANYTHING | _union(self.of(v, depth) for values in attributes.values() for v in values)
        found = [self.of(value, depth) for value in [*attributes.get(name, []), *attributes.get("*", [])]]
        found += [self._binding(b, name, depth) for b in self.scopes.inner[definition].names.get(name, [])]
        if found:
            return _union(found)
        bases = self.instances_of_bases(definition, depth)
        return _union(self.attribute(base, name, depth) for base in bases) or ANYTHING

    def _definition(self, path: str) -> Definition:
        return self.definitions[int(path.strip("#()"))]

    def instances_of_bases(self, definition: ast.ClassDef, depth: int = 0) -> Value:
        """Return what an instance of the class is through its bases."""
        bases = _union(self.of(base, depth) for base in definition.bases) - {"?", "!"}
        return frozenset(f"{path}()" for path in bases if not (path.startswith("#") and path.endswith("()")))

    def _element(self, path: str, index: ast.expr, depth: int) -> Value:
        key = self.text(index)
        if key is not None and path == "sys.modules":
            return frozenset([canonical(key)])
        if key is not None and path.endswith(".__dict__"):
            return self.attribute(path.removesuffix(".__dict__"), key, depth)
        if key is not None and path == "builtins.globals()":
            found = self.scopes.module.names.get(key, [])
            return _union(self._binding(binding, key, depth) for binding in found) or ANYTHING
        return frozenset([path])

    def _call(self, path: str, node: ast.Call, depth: int) -> Value:
        first = node.args[0] if node.args else None
        if path in ("?", "!"):
            return ANYTHING
        if isinstance(node.func, ast.Attribute) and node.func.attr in _LOOKUPS and len(node.args) == 1:
            return self._getattr(node.func.value, node.args, depth)
        if path.startswith("#"):
            return self._own_call(path, depth)
        if path in _GETTERS and len(node.args) > 1:
            return self._getattr(node.args[0], node.args[1:], depth)
        if path in ("builtins.__import__", "importlib.import_module", "importlib.__import__"):
            module = self.text(first)
            return frozenset([canonical(module) if module else "builtins.?"])
        if path == "builtins.vars" and first is not None:
            return _union(self.attribute(value, "__dict__", depth) for value in self.of(first, depth))
        if path == "builtins.super":
            owner = next((n for n in self.scopes.surrounding(node) if isinstance(n, ast.ClassDef)), None)
            return ANYTHING if owner is None else self.instances_of_bases(owner, depth)
        if path == "builtins.type" and len(node.args) == 1:
            return _union(self.attribute(value, "__class__", depth) for value in self.of(first, depth))
        if path in _COPIES:
            return self.of(first, depth)
        if path.removeprefix("builtins.") in _COLLECTIONS:
            return HARMLESS | _union(self.of(argument, depth) for argument in node.args)
        if path in _CONTAINERS:
            return frozenset([f"{path}()"]) | _union(self.of(argument, depth) for argument in node.args)
        return frozenset([f"{path}()"])

    def _getattr(self, holder: ast.expr, arguments: list[ast.expr], depth: int) -> Value:
        """Return the possible values of the attribute, and of the default if there is one."""
        name = self.text(arguments[0])
        found = set(self.of(arguments[1], depth) if len(arguments) > 1 else NOTHING)
        for path in self.of(holder, depth):
            if name is None and path.startswith("#"):
                found |= self.attribute(path, "__dict__", depth)
            else:
                found |= self.attribute(path, name or "?", depth)
        return frozenset(found)

    def _own_call(self, path: str, depth: int) -> Value:
        definition = self._definition(path)
        if path.endswith("()"):
            return ANYTHING
        if isinstance(definition, ast.ClassDef):
            return frozenset([f"{path}()"])
        if isinstance(definition, ast.Lambda):
            return self.of(definition.body, depth)
        return _union(self.of(value, depth) for value in self._returns.get(definition, [])) or ANYTHING


def _union(values: Iterable[Value]) -> Value:
    return NOTHING.union(*values)


def _makes_device_code(decorator: str) -> bool:
    """Whether the body of a function under the decorator is in a kernel language."""
    root, last = decorator.partition(".")[0], decorator.rpartition(".")[2]
    return any(
        root in language.modules and last in language.device_decorators and decorator not in language.host_decorators
        for language in known_languages()
    )
