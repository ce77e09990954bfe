"""The files of a Solution that its entry point imports, and what their names stand for."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from ...core import KernelError
from ...core.source_text import BYTE_ORDER_MARK
from ...core.syntax_tree import syntax_tree
from .schema import Solution

_SUFFIX = ".py"


@dataclass(frozen=True)
class SolutionFiles:
    """The files that count, by their paths; the entry point's is the last."""

    texts: dict[str, str]
    entry: str
    """The entry point's module, dotted."""
    entry_names: frozenset[str]
    """Names that the file defines and imports."""

    @property
    def is_one(self) -> bool:
        """Whether the entry point's file imports no other."""
        return len(self.texts) == 1

    @property
    def entry_text(self) -> str:
        """The text of the entry point's file."""
        return list(self.texts.values())[-1]

    @classmethod
    def of(cls, solution: Solution) -> SolutionFiles:
        """Read the files from the entry point's on; those that nothing imports are left out.

        Raises `KernelError` for a file that cannot be read, an import that leads nowhere, and an entry point that none
        of the files defines.
        """
        spec = solution.spec
        files = {
            _importable(item.path): item.content.removeprefix(BYTE_ORDER_MARK)
            for item in solution.sources
            if item.path.endswith(_SUFFIX)
        }
        entry = _importable(spec.file)
        if entry not in files:
            raise KernelError(f"spec.entry_point: there is no Python file {spec.file}")
        modules = _Modules(files)
        modules.visit(_dotted(entry))
        names = modules.names(_dotted(entry))
        if spec.function not in names and None not in names:
            raise KernelError(f"spec.entry_point: {spec.file} has no function {spec.function}")
        if names.get(spec.function) == "":
            raise KernelError(
                f"spec.entry_point: {spec.file} imports {spec.function}, and none of the sources defines it"
            )
        return cls({label: files[label] for label in modules.visited}, _dotted(entry), frozenset(filter(None, names)))


class _Modules:
    """The files as modules that import each other."""

    def __init__(self, files: dict[str, str]) -> None:
        self._files = files
        self._labels = {_dotted(label): label for label in files}
        self._trees: dict[str, ast.Module] = {}
        self._open: set[str] = set()
        self.visited: dict[str, None] = {}
        """The labels, each after those that it imports."""

    def visit(self, name: str) -> None:
        """Follow the imports of a module."""
        if name not in self._labels or name in self._open:
            return
        self._open.add(name)
        label = self._labels[name]
        try:
            self._trees[name] = syntax_tree(self._files[label])
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise KernelError(f"cannot read {label}: {error}") from None
        for node in ast.walk(self._trees[name]):
            for imported, must_be_own in self._imported(name, node):
                found = self._with_parents(imported)
                if must_be_own and not found and not self._is_folder(imported):
                    raise KernelError(f"no file of the module {imported}; there are {', '.join(self._files)}")
                for other in found:
                    self.visit(other)
        self.visited[label] = None

    def names(self, name: str) -> dict[str | None, str]:
        """Return what a module defines and imports: the text's module that it comes from, '' for a library.

        None stands for all names of a library.
        """
        found: dict[str | None, str] = {}
        for node in _outside_of_functions(self._trees[name]):
            match node:
                case ast.Import(names=aliases):
                    found |= {item.asname or item.name.partition(".")[0]: "" for item in aliases}
                case ast.ImportFrom(names=aliases):
                    module = self._module(name, node)
                    own = module if module in self._labels or self._is_folder(module) else ""
                    for item in aliases:
                        if item.name != "*":
                            found[item.asname or item.name] = own
                        elif own in self._trees:
                            found |= dict.fromkeys(self.names(own), own)
                        else:
                            found[None] = ""
        for node in _outside_of_functions(self._trees[name]):
            match node:
                case ast.FunctionDef(name=defined) | ast.ClassDef(name=defined):
                    found[defined] = name
                case ast.Name(id=defined, ctx=ast.Store()):
                    found[defined] = name
        return found

    def _imported(self, name: str, node: ast.AST) -> Iterator[tuple[str, bool]]:
        """Yield the modules that a node may import, and whether the import must be of a file."""
        match node:
            case ast.Import(names=aliases):
                yield from ((item.name, False) for item in aliases)
            case ast.ImportFrom(names=aliases):
                module = self._module(name, node)
                yield module, bool(node.level and module)
                yield from ((f"{module}.{item.name}".lstrip("."), False) for item in aliases)

    def _module(self, name: str, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = name.split(".")
        is_package = self._labels[name].endswith("__init__.py")
        kept = parts[: len(parts) - node.level + is_package]
        return ".".join([*kept, *([node.module] if node.module else [])])

    def _with_parents(self, name: str) -> list[str]:
        """Return a module of the files and the packages that are imported with it; none for a library."""
        parts = name.split(".")
        names = [".".join(parts[: count + 1]) for count in range(len(parts))]
        return [item for item in names if item in self._labels]

    def _is_folder(self, name: str) -> bool:
        return any(other.startswith(f"{name}.") for other in self._labels)


def _outside_of_functions(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes but those within functions and classes."""
    for node in ast.iter_child_nodes(tree):
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from _outside_of_functions(node)


def _importable(path: str) -> str:
    """Return a path whose parts are names in Python: nothing imports those that are not."""
    parts = PurePosixPath(path).with_suffix("").parts
    return "/".join(part if part.isidentifier() else re.sub(r"\W|^(?=\d)", "_", part) for part in parts) + _SUFFIX


def _dotted(label: str) -> str:
    parts = label.removesuffix(_SUFFIX).split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
