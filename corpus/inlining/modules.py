"""The modules of a user's package as syntax trees: what their top-level statements define, and what names mean there.

What is imported from elsewhere is a library, and stays an import.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import libcst as cst
from libcst import matchers
from libcst.metadata import GlobalScope, ImportAssignment, MetadataWrapper, PositionProvider, Scope, ScopeProvider

from ...core import KernelError
from .roots import Roots
from .texts import Texts

ALONE = "kernel"


@dataclass(frozen=True)
class Library:
    """A name that an import of a library binds, and that import alone as a statement."""

    statement: str


@dataclass(frozen=True)
class OwnModule:
    """A module of the package."""

    module: str


@dataclass(frozen=True)
class OwnName:
    """A name in a module of the package."""

    module: str
    name: str


Meaning = Library | OwnModule | OwnName


class Package:
    """The modules of the packages that some files are in, or of some texts, read when they are first needed."""

    def __init__(self, places: Roots | Texts) -> None:
        self.places = places
        self._modules: dict[str, Module] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names under which its modules are imported."""
        return tuple(dict.fromkeys([*self.places.packages, *(name.partition(".")[0] for name in self._modules)]))

    def module_of(self, path: Path) -> Module:
        """Return the module in one of the files that the package was made for."""
        return self.module(self.places.dotted(path))

    def module(self, name: str) -> Module:
        """Return a module by its dotted name; raises `KernelError` where it cannot be read."""
        if name not in self._modules:
            self._modules[name] = Module(self, name, self.places.file(name))
        return self._modules[name]

    @classmethod
    def of_text(cls, text: str) -> Module:
        """Return a module of its own, such as a kernel file."""
        return cls(Texts({f"{ALONE}.py": text})).module(ALONE)


class Module:
    """One module: its statements, and the meaning of its names."""

    def __init__(self, package: Package, name: str, path: Path | None) -> None:
        self.package = package
        self.name = name
        self.path = path
        """None for a folder without an `__init__.py`."""
        try:
            self.text = package.places.text(path) if path else ""
            self._wrapper = MetadataWrapper(cst.parse_module(self.text))
        except (OSError, UnicodeDecodeError, cst.ParserSyntaxError) as error:
            raise KernelError(f"cannot read {path}: {str(error).splitlines()[0]}") from None
        self.tree = self._wrapper.module
        self._scopes: Mapping[cst.CSTNode, Scope | None] = self._wrapper.resolve(ScopeProvider)
        self._positions = self._wrapper.resolve(PositionProvider)

    def __str__(self) -> str:
        return str(self.path or self.name)

    @property
    def header(self) -> str:
        """The comments at its top."""
        return "".join(self.code(line) for line in self.tree.header if line.comment is not None)

    def line(self, node: cst.CSTNode) -> int:
        """Return the line on which a node begins, counted from 1."""
        return int(self._positions[node].start.line)

    def scope(self, node: cst.CSTNode) -> Scope | None:
        """Return the scope that a name is in; None for what is no name of its own, such as a keyword."""
        return self._scopes.get(node)

    @cached_property
    def definitions(self) -> dict[str, list[int]]:
        """The indices of the statements that define a name."""
        found: dict[str, list[int]] = {}
        for index, statement in enumerate(self.tree.body):
            if not for_types_only(statement):
                for name in self.bound(statement):
                    found.setdefault(name, []).append(index)
        return found

    def bound(self, statement: cst.CSTNode) -> list[str]:
        """Return the names that a top-level statement defines itself, in order; imports of the top level not."""
        if isinstance(statement, cst.FunctionDef | cst.ClassDef):
            return [statement.name.value]
        scope = next((item for item in self._scopes.values() if isinstance(item, GlobalScope)), None)
        inside = set(_nodes(statement))
        names = []
        for assignment in scope.assignments if scope else ():
            node = getattr(assignment, "node", None)
            if node not in inside:
                continue
            if isinstance(assignment, ImportAssignment) and isinstance(statement, cst.SimpleStatementLine):
                continue
            names.append(assignment.name.partition(".")[0])
        return sorted(set(names))

    @cached_property
    def imports(self) -> dict[str, Meaning]:
        """The names that imports of the top level bind."""
        found: dict[str, Meaning] = {}
        for statement in self.tree.body:
            for node in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
                if isinstance(node, cst.Import | cst.ImportFrom):
                    found |= self.meanings(node, found)
        return found

    @property
    def stands_alone(self) -> bool:
        """Whether it imports nothing of its package, neither at the top level nor in a function."""
        nodes: list[Any] = list(matchers.findall(self.tree, matchers.Import() | matchers.ImportFrom()))
        return all(isinstance(meaning, Library) for node in nodes for meaning in self.meanings(node).values())

    def meanings(
        self, node: cst.Import | cst.ImportFrom, known: Mapping[str, Meaning] | None = None
    ) -> dict[str, Meaning]:
        """Return the meaning of each name that an import binds."""
        if isinstance(node, cst.Import):
            return self._plain(node, known or {})
        module = self._from(node)
        if isinstance(node.names, cst.ImportStar):
            if not self._owned(node, module):
                return {"*": Library(self.code(node))}
            other = self.package.module(module)
            names = [name for name in (*other.definitions, *other.imports) if not name.startswith("_")]
            return {name: OwnName(module, name) for name in names}
        found: dict[str, Meaning] = {}
        for alias in node.names:
            name, bound = str(alias.evaluated_name), str(alias.evaluated_alias or alias.evaluated_name)
            inside = f"{module}.{name}" if module else name
            if self._owned(node, module) or self.package.places.owns(inside):
                is_module = self.package.places.exists(inside) and not self._defines(module, name)
                found[bound] = OwnModule(inside) if is_module else OwnName(module, name)
            else:
                suffix = f" as {bound}" if bound != name else ""
                found[bound] = Library(f"from {module} import {name}{suffix}")
        return found

    def _plain(self, node: cst.Import, known: Mapping[str, Meaning]) -> dict[str, Meaning]:
        found: dict[str, Meaning] = {}
        for alias in node.names:
            name, other = str(alias.evaluated_name), alias.evaluated_alias
            bound = str(other or name.partition(".")[0])
            if self.package.places.owns(name):
                found[bound] = OwnModule(name if other else bound)
            else:
                statement = f"import {name}{f' as {other}' if other else ''}"
                before = found.get(bound, known.get(bound))  # 'import torch' and 'import torch.nn' bind one name
                lines = before.statement.split("\n") if isinstance(before, Library) else []
                found[bound] = Library("\n".join(dict.fromkeys([*lines, statement])))
        return found

    def _owned(self, node: cst.ImportFrom, module: str) -> bool:
        return bool(node.relative) or self.package.places.owns(module)

    def _from(self, node: cst.ImportFrom) -> str:
        """Return the absolute name of the module that is imported from."""
        named = _dotted(node.module)
        if not node.relative:
            return named
        parts = self.name.split(".") if self.name else []
        is_package = self.path is None or self.path.name == "__init__.py"
        up = len(node.relative) - (1 if is_package else 0)
        kept = parts[: len(parts) - up] if up <= len(parts) else []
        return ".".join([*kept, *([named] if named else [])])

    def _defines(self, module: str, name: str) -> bool:
        if not module or not self.package.places.exists(module):
            return False
        other = self.package.module(module)
        return name in other.definitions or (other is not self and name in other.imports)

    def code(self, node: cst.CSTNode) -> str:
        """Return the text of a node."""
        return self.tree.code_for_node(node)


def for_types_only(statement: cst.CSTNode) -> bool:
    """Return whether this is `if TYPE_CHECKING`, whose names only annotations use."""
    return isinstance(statement, cst.If) and _dotted(statement.test).endswith("TYPE_CHECKING")


def _dotted(node: Any) -> str:
    if node is None:
        return ""
    if isinstance(node, cst.Attribute):
        return f"{_dotted(node.value)}.{node.attr.value}"
    return node.value if isinstance(node, cst.Name) else ""


def _nodes(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    yield node
    for child in node.children:
        yield from _nodes(child)
