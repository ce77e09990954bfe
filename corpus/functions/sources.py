"""The origin of a launch's value: the literal, assignment or default in the user's texts."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import cached_property
from operator import add, floordiv, lshift, mul, pow, rshift, sub

from ...core.scopes import Binding, Function, Scopes, positional
from .entries import MOST_ENTRIES, Entries
from .modules import ModuleText, UserModules
from .reach import Reach, nodes_of
from .signatures import argument_of, default_of
from .text_edits import Offsets

_MOST_STEPS = 12
"""Names and calls that a value is followed through."""
_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: add, ast.Sub: sub, ast.Mult: mul, ast.FloorDiv: floordiv, ast.LShift: lshift, ast.RShift: rshift,
    ast.Pow: pow,
}  # fmt: skip
_SAME_VALUE = ("constexpr", "int")
_EXTENTS = ("size", "stride", "numel", "dim", "ndimension", "element_size", "len", "data_ptr", "int", "float", "bool")
"""Names of functions for sizes, whose results are given, not chosen."""


class SiteForm(Enum):
    """The form of a constant at a place."""

    LITERAL = auto()
    """In place of a number."""
    CHOSEN = auto()
    """Before a computed value of the user's code, which counts unless the constant is set."""
    AFTER = auto()
    """In an assignment after the statement that computes a name."""
    ADDED = auto()
    """As a new argument of the call."""
    MERGED = auto()
    """In a dict of arguments."""


@dataclass(frozen=True)
class Site:
    """A place of a module's text that gives a value."""

    module: str
    begin: int
    """In bytes."""
    end: int
    form: SiteForm
    name: str = ""
    """The name to which an assignment or an argument gives the value."""
    value: int | None = None
    """The number that stands there."""
    is_entry: bool = field(default=False, compare=False)
    """Whether it is the entry of a table, which is a parameter of its own."""


class Sources:
    """Follows values through the modules that a candidate may change."""

    def __init__(self, modules: UserModules, found: Reach) -> None:
        self._modules = modules
        self._found = found
        self.texts = {item.name: item for item in found.modules}
        self._scopes: dict[str, Scopes] = {}
        self._offsets: dict[str, Offsets] = {}
        self.entries = Entries(self)
        self._open: set[ast.expr] = set()
        """The expressions being followed, since a name may depend on itself."""

    def scopes(self, module: ModuleText) -> Scopes:
        """Return what names stand for in a module."""
        if module.name not in self._scopes:
            self._scopes[module.name] = Scopes(module.tree)
        return self._scopes[module.name]

    def offsets(self, module: ModuleText) -> Offsets:
        """Return where nodes stand in a module's text."""
        if module.name not in self._offsets:
            self._offsets[module.name] = Offsets(module.text)
        return self._offsets[module.name]

    @cached_property
    def reached(self) -> list[tuple[ModuleText, list[ast.AST]]]:
        """The nodes that a call of the function may use, by module."""
        return [
            (module, list(nodes_of(statement, with_gradients=False)))
            for module in self._found.modules
            for name, statements in module.definitions.items()
            if (module.name, name) in self._found.called
            for statement in statements
        ]

    def definitions(self, module: ModuleText, node: ast.expr) -> list[tuple[ModuleText, ast.FunctionDef]]:
        """Return the functions that an expression may stand for: a name, attributes of modules, a choice of these."""
        found: dict[tuple[ModuleText, ast.FunctionDef], None] = {}
        open_, seen = [node], set[ast.expr]()
        while open_:
            item = open_.pop(0)
            if item in seen:
                continue
            seen.add(item)
            match item:
                case ast.IfExp(body=body, orelse=orelse):
                    open_ += [body, orelse]
                    continue
                case ast.Call(args=[first]):  # such as wrap_triton(kernel)
                    open_.append(first)
                    continue
                case ast.Name() if local := self._local(module, item):
                    open_ += [binding.value for binding in local if binding.value is not None]
                    continue
            path: list[str] = []
            while isinstance(item, ast.Attribute):
                path.insert(0, item.attr)
                item = item.value
            if isinstance(item, ast.Name) and not self._local(module, item):
                found |= dict.fromkeys(self._named(module, [item.id, *path], _MOST_STEPS))
        return list(found)

    def _local(self, module: ModuleText, node: ast.Name) -> list[Binding]:
        """Return the values to which functions bind a name; empty for a name of the module."""
        scopes = self.scopes(module)
        found = scopes.find(node) or []
        return [] if found is scopes.module.names.get(node.id) else found

    def _named(self, module: ModuleText, path: list[str], steps: int) -> list[tuple[ModuleText, ast.FunctionDef]]:
        first, *rest = path
        if not steps:
            return []
        if first in module.definitions:
            found = [item for item in module.definitions[first] if isinstance(item, ast.FunctionDef)]
            return [(module, item) for item in found] if not rest else []
        if first not in module.imports:
            stars = [there for name in module.stars if (there := self._modules.get(name)) is not None]
            return [found for there in stars for found in self._named(there, path, steps - 1)]
        where, name = module.imports[first]
        rest = [*([name] if name is not None else []), *rest]
        while rest and (inner := self._modules.get(f"{where}.{rest[0]}")) is not None:
            outer = self._modules.get(where)
            if outer is not None and rest[0] in outer.definitions:
                break
            where, rest = inner.name, rest[1:]
        there = self._modules.get(where)
        return self._named(there, rest, steps - 1) if rest and there is not None else []

    @cached_property
    def _calls(self) -> dict[ast.FunctionDef, list[tuple[ModuleText, ast.Call]]]:
        """The calls of each function in the reached code, by its name."""
        calls: dict[ast.FunctionDef, list[tuple[ModuleText, ast.Call]]] = {}
        for module, nodes in self.reached:
            for node in nodes:
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                    for _, function in self.definitions(module, node.func):
                        calls.setdefault(function, []).append((module, node))
        return calls

    def sites(self, module: ModuleText, node: ast.expr, steps: int = _MOST_STEPS) -> list[Site]:
        """Return the places that give an expression its value; empty if nothing there chooses it.

        If there are several, each is a `SiteForm.CHOSEN` or `SiteForm.AFTER`, since it is unknown which of them runs.
        """
        found = self._sites(module, node, steps)
        several = len(found) > 1 and not all(item.is_entry for item in found)
        return [
            replace(item, form=SiteForm.CHOSEN) if several and item.form is SiteForm.LITERAL else item for item in found
        ]

    def _sites(self, module: ModuleText, node: ast.expr, steps: int) -> list[Site]:
        if not steps or module.name not in self.texts or node in self._open:
            return []
        self._open.add(node)
        try:
            return self._followed(module, node, steps)
        finally:
            self._open.remove(node)

    def _followed(self, module: ModuleText, node: ast.expr, steps: int) -> list[Site]:
        match node:
            case ast.Call(func=function, args=[first], keywords=[]) if _last(function) in _SAME_VALUE:
                return self._sites(module, first, steps - 1)
            case ast.Name():
                return self._of_name(module, node, steps)
            case ast.Subscript() | ast.Attribute() | ast.Call(func=ast.Attribute(attr="get")):
                if taken := self._taken(module, node, self.entries.of(module, node)):
                    return taken
        number = constant(node)
        if number is not None:
            return [self.site(module, node, SiteForm.LITERAL, value=number)]
        return [self.site(module, node, SiteForm.CHOSEN)] if is_choice(node) else []

    def _taken(
        self, module: ModuleText, node: ast.expr, entries: list[tuple[ModuleText, ast.expr]] | None
    ) -> list[Site]:
        """Return the places of the entries that an expression may take from tables, where all of these are numbers."""
        sites = self.entry_sites(entries or [])
        chosen = any(constant(entry) is not None or is_choice(entry) for _, entry in entries or ())
        return sites or ([self.site(module, node, SiteForm.CHOSEN)] if chosen else [])

    def entry_sites(self, entries: Sequence[tuple[ModuleText, ast.expr]]) -> list[Site]:
        """Return the places of entries; none unless they are few, and numbers, in texts that a candidate may change."""
        numbers = [constant(node) for _, node in entries]
        if None in numbers or len(numbers) > MOST_ENTRIES or any(there.name not in self.texts for there, _ in entries):
            return []
        sites = [
            self.site(there, node, SiteForm.LITERAL, value=number)
            for (there, node), number in zip(entries, numbers, strict=True)
        ]
        return [replace(item, is_entry=True) for item in sites]

    def site(
        self, module: ModuleText, node: ast.expr, form: SiteForm, name: str = "", value: int | None = None
    ) -> Site:
        """Return the place of an expression."""
        offsets = self.offsets(module)
        return Site(module.name, offsets.begin(node), offsets.end(node), form, name, value)

    def _of_name(self, module: ModuleText, node: ast.Name, steps: int) -> list[Site]:
        bindings = self.scopes(module).find(node)
        if bindings is None:
            return []
        if all(item.path is not None for item in bindings):
            return self._imported(module, node.id, steps)
        found: list[Site] = []
        for item in bindings:
            if item.parameter_of is not None:
                found += self._of_parameter(module, item.parameter_of, node.id, steps)
                continue
            here = self._of_binding(module, item, node.id, steps)
            if here is None:
                return []
            found += here
        return list(dict.fromkeys(found))

    def imported(self, module: ModuleText, name: str) -> tuple[ModuleText, ast.Name] | None:
        """Return the module of an imported name, and a use of the name at the top level there."""
        where, given = module.imports.get(name, ("", None))
        there = self._modules.get(where)
        if there is None or given is None:
            return None
        use = next((node for node in ast.walk(there.tree) if isinstance(node, ast.Name) and node.id == given), None)
        at_top = use is not None and self.scopes(there).find(use) is self.scopes(there).module.names.get(given)
        return (there, use) if use is not None and at_top else None

    def _imported(self, module: ModuleText, name: str, steps: int) -> list[Site]:
        found = self.imported(module, name)
        return self._of_name(*found, steps - 1) if found is not None else []

    def _of_binding(self, module: ModuleText, binding: Binding, name: str, steps: int) -> list[Site] | None:
        """Return the places of an assigned value; None for a name that changes in another way."""
        value, parents = binding.value, self.scopes(module).parents
        if value is None:
            return None
        statement = parents.get(value)
        if isinstance(statement, ast.Tuple | ast.List):
            statement = parents.get(statement)
        if not isinstance(statement, ast.Assign | ast.AnnAssign):
            return None
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        if value is statement.value and not any(isinstance(item, ast.Name) and item.id == name for item in targets):
            entries = self.entries.of_binding(module, binding, name)
            if sites := self.entry_sites(entries or []):
                return sites
            end = self.offsets(module).end(statement)
            return [Site(module.name, end, end, SiteForm.AFTER, name)] if is_choice(value) else []
        found = self._sites(module, value, steps - 1)
        if found or not is_choice(value):
            return found
        return [self.site(module, value, SiteForm.CHOSEN)]

    def given(self, module: ModuleText, function: Function, name: str) -> list[tuple[ModuleText, ast.expr]]:
        """Return callers' arguments for a parameter, and its default if a caller gives none."""
        if isinstance(function, ast.Lambda):
            return []
        calls = self._calls.get(function, []) if isinstance(function, ast.FunctionDef) else []
        given = [(there, argument_of(call, positional(function), name)) for there, call in calls]
        found = [(there, value) for there, value in given if value is not None]
        default = default_of(function, name)
        if default is not None and (not given or len(found) < len(given)):
            found.append((module, default))
        return found

    def _of_parameter(self, module: ModuleText, function: Function, name: str, steps: int) -> list[Site]:
        given = self.given(module, function, name)
        return [site for there, value in given for site in self._sites(there, value, steps - 1)]


def constant(node: ast.expr) -> int | None:
    """Return the value of a constant expression, such as `1 << 6`, if it is a positive integer."""
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return value if value > 0 else None
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _ARITHMETIC:
            first, second = constant(left), constant(right)
            if first is None or second is None or (second > 64 and isinstance(operator, ast.LShift | ast.Pow)):
                return None
            found = _ARITHMETIC[type(operator)](first, second)
            return found if found > 0 else None
    return None


def is_choice(node: ast.expr) -> bool:
    """Return whether an expression chooses a value that does not follow from a tensor's extents."""
    for item in ast.walk(node):
        if isinstance(item, ast.IfExp) or (isinstance(item, ast.Call) and _last(item.func) not in _EXTENTS):
            return True
        if (
            isinstance(item, ast.Subscript)
            and isinstance(item.slice, ast.Constant)
            and isinstance(item.slice.value, str)
        ):
            return True
    return False


def _last(function: ast.expr) -> str:
    return ast.unparse(function).rpartition(".")[2]
