"""Executes a changed text in place of a module that is already imported.

Registries of the package take the new objects, and other modules that took the old ones from it get the new ones.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from ...core.syntax_tree import syntax_tree

_UNWRAPPED = 8
"""Decorators under which a function is looked for."""
_PLAIN = frozenset([str, int, float, bool, type(None), tuple, list, dict, ModuleType])
"""Types of which no object is a function, nor leads to one."""
_DICTS = (dict, OrderedDict, defaultdict)


def executed_in_place(name: str, path: str, source: str, place: Path, given: Mapping[str, Any]) -> ModuleType:
    """Execute a text in the place of a module."""
    old: Any = sys.modules[name]
    module = ModuleType(name)
    module.__file__, module.__spec__ = path, old.__spec__
    module.__package__ = name if hasattr(old, "__path__") else name.rpartition(".")[0]
    if hasattr(old, "__path__"):
        module.__path__ = old.__path__
        module.__dict__.update({key: value for key, value in vars(old).items() if isinstance(value, ModuleType)})
    module.__dict__.update(given)
    sys.modules[name] = module
    try:
        with _defining_again(old):
            exec(compile(source, str(place), "exec", dont_inherit=True), module.__dict__)
    except BaseException:
        sys.modules[name] = old
        raise
    return module


@contextlib.contextmanager
def _defining_again(module: ModuleType) -> Iterator[None]:
    """Let a module that is executed again define its operators once more, in libraries of its own and of others.

    Their implementations are replaced: torch allows that.
    """
    from torch.library import Library

    for value in vars(module).values():
        if isinstance(value, Library):
            value._destroy()
    define = Library.define

    def once(library: Any, schema: str, *arguments: Any, **options: Any) -> Any:
        name = schema.split("(")[0]
        known = f"{library.ns}::{name}" in library._op_defs
        return name if known else define(library, schema, *arguments, **options)

    Library.define = once
    try:
        yield
    finally:
        Library.define = define


class Registries:
    """The dicts of a package in which its modules enter their classes and functions, and refuse to do so twice.

    Looked at are dicts that modules, their classes, and objects of these have as attributes.
    """

    def __init__(self) -> None:
        self._taken: list[tuple[dict[Any, Any], Any, Any]] = []

    def restore(self) -> None:
        """Put back what was there before any text was executed again."""
        for registry, key, value in reversed(self._taken):
            registry[key] = value
        self._taken.clear()

    def take_out(self, module: ModuleType) -> None:
        """Remove what a module defined, before it is executed again."""
        for registry in _dicts_of_package(module):
            for key, value in list(registry.items()):
                if module.__name__ in (defined_in(value), defined_in(key)):
                    self._taken.append((registry, key, registry.pop(key)))

    def put_back(self, replaced: Mapping[int, Any]) -> None:
        """Enter again what was not registered again: as what replaced it, by the old object's id."""
        for registry, key, value in self._taken:
            registry.setdefault(replaced.get(id(key), key), replaced.get(id(value), value))


def _dicts_of_package(module: ModuleType) -> Iterator[dict[Any, Any]]:
    """Yield those that other modules of a module's package hold."""
    first = module.__name__.partition(".")[0]
    seen = set[int]()

    def unseen(holder: object) -> Iterator[dict[Any, Any]]:
        for key, value in _attributes(holder):
            if type(value) in _DICTS and id(value) not in seen and not key.startswith("__"):
                seen.add(id(value))
                yield value

    for other in _of_same_package(module.__name__):
        if other is module:
            continue
        yield from unseen(other)
        for _, value in _attributes(other):
            kind = value if isinstance(value, type) else type(value)
            if id(value) not in seen and kind.__module__.partition(".")[0] == first:
                seen.add(id(value))
                yield from unseen(value)


def _attributes(holder: object) -> list[tuple[str, Any]]:
    """Return what a module, a class or an object has itself; not by getattr, which may import or make something."""
    try:
        return list(object.__getattribute__(holder, "__dict__").items())
    except AttributeError:
        return []


def takes_from(module: ModuleType, source: str, names: Collection[str]) -> bool:
    """Return whether a module has something of the modules of these names: by an import, or by way of others."""
    if any(name in names for name in _imported(source, module.__package__ or "")):
        return True
    return any(
        (value.__name__ if isinstance(value, ModuleType) else defined_in(value)) in names
        for value in vars(module).values()
    )


def _imported(source: str, package: str) -> Iterator[str]:
    """Yield what a text imports when it is executed, not when its functions are called: modules, or names in them."""
    open_: list[ast.AST] = [syntax_tree(source)]
    while open_:
        node = open_.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                continue
            case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"), orelse=others):
                open_ += others
                continue
            case ast.Import(names=names):
                yield from (item.name for item in names)
            case ast.ImportFrom(module=name, names=names, level=level):
                with contextlib.suppress(ImportError):  # beyond the package: that fails when it is executed
                    base = importlib.util.resolve_name("." * level + (name or ""), package)
                    yield base
                    yield from (f"{base}.{item.name}" for item in names)
        open_ += ast.iter_child_nodes(node)


def replacements(old: ModuleType, new: ModuleType) -> dict[int, Any]:
    """Return the new module, and what it defines in the place of an old one's definitions, by the ids of the old."""
    found: dict[int, Any] = {id(old): new}
    for key, value in vars(old).items():
        if defined_in(value) == old.__name__ and key in vars(new):
            found[id(value)] = vars(new)[key]
    return found


def rebind(name: str, objects: Mapping[int, Any], excluded: Collection[str] = ()) -> list[tuple[ModuleType, str, Any]]:
    """Replace objects, by their ids, wherever a module of the package of this one has them as attributes.

    Returns the attributes that changed, and what they were. `excluded` modules stay as they are.
    """
    changed: list[tuple[ModuleType, str, Any]] = []
    for module in _of_same_package(name):
        if module.__name__ in excluded:
            continue
        for key, value in list(vars(module).items()):
            if id(value) in objects:
                changed.append((module, key, value))
                setattr(module, key, objects[id(value)])
    return changed


def _of_same_package(name: str) -> Iterator[ModuleType]:
    first = name.partition(".")[0]
    for other, module in list(sys.modules.items()):
        if other.partition(".")[0] == first and isinstance(module, ModuleType):
            yield module


def defined_in(value: Any) -> str | None:
    """Return the module in which a function, a class or a kernel is defined; None for any other object."""
    for _ in range(_UNWRAPPED):
        if isinstance(value, FunctionType | type):
            return value.__module__
        if type(value) in _PLAIN:
            return None
        try:  # not getattr, which may import or make something
            inside = object.__getattribute__(value, "__dict__")
        except AttributeError:
            return None
        value = inside.get("fn") or inside.get("__wrapped__")
    return None
