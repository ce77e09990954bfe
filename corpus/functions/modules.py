"""Files of a user's modules, and the meaning of names in them, as far as the texts show."""

from __future__ import annotations

import ast
import copy
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from ...core import KernelError
from ...core.syntax_tree import syntax_tree
from ...core.text import digest_of
from ...core.user_package import read_module

_KERNEL_DECORATORS = ("jit", "prim_func", "autotune", "heuristics", "lazy_jit")


class Place:
    """The folder that must be on Python's path for a file to be imported, and the file's name there.

    A package is the outermost folder with an `__init__.py` above a file; a folder in between may lack its own.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        folder = self.path.parent
        while (folder / "__init__.py").exists():
            above = folder.parent
            folder = above.parent if not (above / "__init__.py").exists() and _is_within(above.parent) else above
        self.folder = folder
        parts = list(self.path.relative_to(folder).with_suffix("").parts)
        if parts[-1] == "__init__":
            del parts[-1]
        # A module of Python's own is found before a script of its name.
        self.is_importable = all(part.isidentifier() for part in parts) and parts[0] not in sys.stdlib_module_names
        if not self.is_importable:  # such as a script with a dash in its name, which only its path leads to
            parts = [f"user_{digest_of(str(self.path))}"]
        self.module = ".".join(parts)

    @property
    def top(self) -> str:
        """The name of its package, or of the file's module if it is in none."""
        return self.module.partition(".")[0]

    @property
    def tops(self) -> dict[str, Path]:
        """The top-level modules beside it, by name: in a folder without a package the files there import each other."""
        if not self.is_importable:
            return {self.module: self.path, **_modules_in(self.folder)}
        if "." in self.module or self.path.name == "__init__.py":
            return {self.top: self.folder / self.top}
        return _modules_in(self.folder)


def _is_within(folder: Path) -> bool:
    """Return whether a folder is a package that Python's path does not begin in."""
    return (folder / "__init__.py").exists() and folder not in map(Path, sys.path)


def _modules_in(folder: Path) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for item in sorted(folder.iterdir()):
        if item.suffix == ".py" and item.stem.isidentifier():
            found[item.stem] = item
        elif item.name.isidentifier() and (item / "__init__.py").is_file():
            found[item.name] = item
    return found


class UserModules:
    """The modules below some top-level names, read when they are first needed."""

    def __init__(self, tops: dict[str, Path]) -> None:
        self.tops = tops
        self._known: dict[str, ModuleText | None] = {}

    def get(self, name: str) -> ModuleText | None:
        """Return a module by its dotted name; None without readable Python source."""
        if name not in self._known:
            self._known[name] = self._read(name)
        return self._known[name]

    def _read(self, name: str) -> ModuleText | None:
        top, *rest = name.split(".")
        if top not in self.tops:
            return None
        path = self.tops[top].joinpath(*rest) if rest else self.tops[top]
        for file in (path, path.with_name(f"{path.name}.py"), path / "__init__.py"):
            if file.is_file() and file.suffix == ".py":
                try:
                    return ModuleText(name, file)
                except KernelError:
                    return None
        return None


class ModuleText:
    """One module: the definitions of its top-level statements, and the names of all its imports."""

    def __init__(self, name: str, path: Path) -> None:
        """Raises `KernelError` for a file that cannot be read."""
        self.name = name
        self.path = path
        try:
            self.text = read_module(path)
            self.tree = syntax_tree(self.text)
        except (OSError, UnicodeDecodeError, SyntaxError, ValueError, RecursionError) as error:
            raise KernelError(f"cannot read {path}: {error}") from None

    @cached_property
    def definitions(self) -> dict[str, list[ast.stmt]]:
        """The statements that define a name, also within an `if`, a `try` or a `with` of the top level."""
        found: dict[str, list[ast.stmt]] = {}
        wrapped = wrapped_kernels(self.tree)
        for statement in _top_level(self.tree.body):
            for name in _defined(statement):
                found.setdefault(name, []).append(wrapped.get(statement, statement))
        return found

    @cached_property
    def imports(self) -> dict[str, tuple[str, str | None]]:
        """For a name, the module that it is imported from and its name there; None if it is the module."""
        found: dict[str, tuple[str, str | None]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for item in node.names:
                    top = item.name.partition(".")[0]
                    found[item.asname or top] = (item.name if item.asname else top, None)
            elif isinstance(node, ast.ImportFrom):
                module = self._absolute(node)
                for item in node.names:
                    found[item.asname or item.name] = (module, item.name)
        return found

    @cached_property
    def stars(self) -> list[str]:
        """The modules of which it imports all names."""
        nodes = [node for node in ast.walk(self.tree) if isinstance(node, ast.ImportFrom)]
        return [self._absolute(node) for node in nodes if node.names[0].name == "*"]

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        kept = parts[: len(parts) - node.level + (self.path.name == "__init__.py")]
        return ".".join([*kept, *([node.module] if node.module else [])])


def wrapped_kernels(tree: ast.Module) -> dict[ast.stmt, ast.FunctionDef]:
    """Return the functions that later assignments turn into kernels, `k = triton.jit(k)`, with these as decorators."""
    functions: dict[str, ast.FunctionDef] = {}
    wrappers: dict[str, list[ast.expr]] = {}
    for statement in _top_level(tree.body):
        match statement:
            case ast.FunctionDef(name=name):
                functions[name] = statement
                wrappers.pop(name, None)
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Call(func=wrapper, args=[ast.Name(id=other)], keywords=[])
            ) if name == other and name in functions:
                wrappers.setdefault(name, []).insert(0, wrapper)
    made = {
        functions[name]: _with_decorators(functions[name], [*found, *functions[name].decorator_list])
        for name, found in wrappers.items()
    }
    return {function: new for function, new in made.items() if is_kernel(new)}


def functions_of(text: str) -> list[ast.FunctionDef]:
    """Return the functions of a text, with later assignments as decorators of kernels."""
    tree = syntax_tree(text)
    wrapped = wrapped_kernels(tree)
    return [wrapped.get(node, node) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def _with_decorators(function: ast.FunctionDef, decorators: list[ast.expr]) -> ast.FunctionDef:
    found = copy.copy(function)
    found.decorator_list = decorators
    return found


def is_kernel(function: ast.FunctionDef) -> bool:
    """Return whether one of its decorators turns it into a kernel, or chooses its configs."""
    calls = [item.func if isinstance(item, ast.Call) else item for item in function.decorator_list]
    return any(ast.unparse(item).rpartition(".")[2] in _KERNEL_DECORATORS for item in calls)


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        for field in ("body", "orelse", "finalbody"):
            if isinstance(statement, ast.If | ast.Try | ast.With):
                yield from _top_level(getattr(statement, field, []))
        if isinstance(statement, ast.Try):
            for handler in statement.handlers:
                yield from _top_level(handler.body)


def _defined(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.AugAssign(target=ast.Name(id=name)):
            return [name]
    return []
