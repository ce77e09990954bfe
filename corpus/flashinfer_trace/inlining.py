"""The files of a Solution as one: those that its entry point's file imports, directly or not, stand before it.

Names keep their spelling unless two files bind the same one; then that of the imported file begins with its file's
name. Raises `KernelError` for what cannot be one file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from pathlib import PurePosixPath
from typing import Any

import libcst as cst
from libcst import metadata

from ...core import KernelError


def inlined(
    sources: Mapping[str, str], entry: str, reserved: frozenset[str] = frozenset()
) -> tuple[str, dict[str, str]]:
    """Return the source of the file `entry` with all that it imports of `sources`, and its names' spellings there.

    `reserved` are names that it must not bind.
    """
    files = {_dotted(path): _File(path, _dotted(path), text) for path, text in sources.items() if path.endswith(".py")}
    merge = _Merge(files, reserved)
    merge.name(files[_dotted(entry)])
    merge.emit(files[_dotted(entry)])
    return merge.text(), files[_dotted(entry)].spelling


def _dotted(path: str) -> str:
    parts = PurePosixPath(path).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


class _File:
    """A file: the names that it binds, and which of them are other files or names of theirs."""

    def __init__(self, path: str, dotted: str, text: str) -> None:
        self.path, self.dotted = path, dotted
        try:
            self.wrapper = metadata.MetadataWrapper(cst.parse_module(text.removeprefix("\ufeff")))
        except cst.ParserSyntaxError as error:
            raise KernelError(f"{path} is no valid Python: {error.message}") from None
        self.scopes: Mapping[cst.CSTNode, Any] = self.wrapper.resolve(metadata.ScopeProvider)
        self.scope: metadata.Scope = self.scopes[self.wrapper.module]
        self.spelling: dict[str, str] = {}
        """The name in the one file for each name that this one binds."""

    def resolve(
        self, node: cst.Import | cst.ImportFrom, files: Mapping[str, _File]
    ) -> Iterator[tuple[str, _File, str]]:
        """Yield local name, file and its name ('' for the file itself) for imports of other files."""
        if isinstance(node, cst.Import):
            for alias in node.names:
                name = _text(alias.name)
                if name in files:
                    if alias.asname is None and "." in name:
                        raise KernelError(
                            f"{self.path}: import {name} cannot be put into one file; import it `as` a name"
                        )
                    yield alias.evaluated_alias or name, files[name], ""
            return
        base = _text(node.module) if node.module else ""
        if node.relative:
            above = self.dotted.split(".") if self.path.endswith("__init__.py") else self.dotted.split(".")[:-1]
            above = above[: len(above) - len(node.relative) + 1]
            base = ".".join([*above, *([base] if base else [])])
        if isinstance(node.names, cst.ImportStar):
            if base in files:
                raise KernelError(f"{self.path}: from {base} import * hides which names are meant; name them")
            return
        for alias in node.names:
            name = alias.evaluated_name
            inner = f"{base}.{name}" if base else name
            if inner in files:
                yield alias.evaluated_alias or name, files[inner], ""
            elif base in files:
                yield alias.evaluated_alias or name, files[base], name
            elif node.relative:
                raise KernelError(f"{self.path}: {_text(node)}: the Solution has no such file; add it to sources")


class _Merge:
    def __init__(self, files: Mapping[str, _File], reserved: frozenset[str]) -> None:
        self._files = files
        self._taken: dict[str, str] = dict.fromkeys(reserved, "")
        """Which file, or import, a name of the one file belongs to."""
        self._parts: list[str] = []
        self._done: set[str] = set()
        self._named: set[str] = set()

    def name(self, file: _File) -> None:
        """Choose the spelling of what a file binds, and of what it imports; the entry's file first."""
        if file.dotted in self._named:
            return
        self._named.add(file.dotted)
        inner = {
            local: target
            for node in _imports(file, self._files)
            for local, target, _ in file.resolve(node, self._files)
        }
        for assignment in file.scope.assignments:
            name = assignment.name
            if name in inner or name in file.spelling or isinstance(assignment, metadata.BuiltinAssignment):
                continue
            owner = file.path
            if isinstance(assignment, metadata.ImportAssignment):
                owner = f"{name} = {sorted(one.name for one in assignment.get_qualified_names_for(name))}"
                if self._taken.setdefault(name, owner) != owner:
                    raise KernelError(f"{file.path} and another file mean different things by {name}; rename one")
            file.spelling[name] = self._free(name, file, owner)
        for target in inner.values():
            self.name(target)

    def _free(self, name: str, file: _File, owner: str) -> str:
        spelled = name
        while self._taken.setdefault(spelled, owner) != owner:
            spelled = f"{file.dotted.replace('.', '_')}_{spelled}"
        return spelled

    def emit(self, file: _File) -> None:
        """Write a file, after those that it imports."""
        if file.dotted in self._done:
            return
        self._done.add(file.dotted)
        meant: dict[str, tuple[_File, str]] = {}
        drop: set[cst.CSTNode] = set()
        for node in _imports(file, self._files):
            found = list(file.resolve(node, self._files))
            if found and len(found) != len(node.names):  # type: ignore[arg-type]
                raise KernelError(f"{file.path}: {_text(node)} mixes the Solution's files with others; split it")
            if found:
                drop.add(node)
                meant |= {local: (target, name) for local, target, name in found}
        for target, _ in meant.values():
            self.emit(target)
        names: dict[cst.CSTNode, str] = {}
        modules: dict[cst.CSTNode, _File] = {}
        for assignment in file.scope.assignments:
            for place in _places(assignment):
                if assignment.name in meant:
                    target, name = meant[assignment.name]
                    if not name:
                        modules[place] = target
                    else:
                        names[place] = _spelling(target, name, file)
                elif assignment.name in file.spelling:
                    names[place] = file.spelling[assignment.name]
        whole = file.wrapper.module.visit(_Rewrite(file, names, modules, drop))
        assert isinstance(whole, cst.Module)
        self._parts.append(whole.code.strip("\n"))

    def text(self) -> str:
        """Return the one file; what is imported from the future comes first."""
        future = "from __future__ import annotations\n"
        parts = [part.replace(future, "") for part in self._parts]
        head = [future.rstrip()] if parts != self._parts else []
        return "\n\n\n".join([*head, *(part.strip("\n") for part in parts if part.strip())]) + "\n"


def _spelling(target: _File, name: str, file: _File) -> str:
    if name not in target.spelling:
        raise KernelError(f"{file.path} imports {name} of {target.path}, which does not define it")
    return target.spelling[name]


def _imports(file: _File, files: Mapping[str, _File]) -> list[cst.Import | cst.ImportFrom]:
    """Return a file's import statements; those of other files must stand outside of functions."""
    found = _Statements()
    file.wrapper.module.visit(found)
    if inner := [node for node in found.inner if list(file.resolve(node, files))]:
        raise KernelError(f"{file.path}: {_text(inner[0])} stands in a function; move it to the top of the file")
    return found.outer


def _places(assignment: metadata.BaseAssignment) -> Iterator[cst.CSTNode]:
    """Yield the `Name`s that an assignment binds, and that refer to it."""
    node = getattr(assignment, "node", None)
    if isinstance(node, cst.FunctionDef | cst.ClassDef):
        yield node.name
    elif isinstance(node, cst.Name):
        yield node
    for access in assignment.references:
        refers: cst.CSTNode = access.node
        while isinstance(refers, cst.Attribute):
            refers = refers.value
        yield refers


class _Statements(cst.CSTVisitor):
    """Collects the imports outside of functions, and within."""

    def __init__(self) -> None:
        super().__init__()
        self.outer: list[cst.Import | cst.ImportFrom] = []
        self.inner: list[cst.Import | cst.ImportFrom] = []
        self._depth = 0

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self._depth += 1

    def leave_FunctionDef(self, original_node: cst.FunctionDef) -> None:
        self._depth -= 1

    def visit_Import(self, node: cst.Import) -> None:
        (self.inner if self._depth else self.outer).append(node)

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
        (self.inner if self._depth else self.outer).append(node)


class _Rewrite(cst.CSTTransformer):
    """Spells names as in the one file, and leaves out the imports of other files."""

    def __init__(
        self,
        file: _File,
        names: Mapping[cst.CSTNode, str],
        modules: Mapping[cst.CSTNode, _File],
        drop: Set[cst.CSTNode],
    ) -> None:
        super().__init__()
        self._file, self._names, self._modules, self._drop = file, names, modules, drop
        self._looked_into: set[cst.CSTNode] = set()

    def visit_Attribute(self, node: cst.Attribute) -> None:
        self._looked_into.add(node.value)

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        target = self._modules.get(original_node.value)
        return updated_node if target is None else cst.Name(_spelling(target, original_node.attr.value, self._file))

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        if original_node in self._modules and original_node not in self._looked_into:
            raise KernelError(f"{self._file.path} uses the module {original_node.value} as a value; name what it needs")
        return updated_node.with_changes(value=self._names.get(original_node, updated_node.value))

    def leave_Import(self, original_node: cst.Import, updated_node: cst.Import) -> Any:
        return cst.RemoveFromParent() if original_node in self._drop else updated_node

    def leave_ImportFrom(self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom) -> Any:
        return cst.RemoveFromParent() if original_node in self._drop else updated_node


def _text(node: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(node)
