"""A function of a user's package: where its modules lie, and the text of those that a candidate may change.

Such a candidate is one text of several parts. Each part begins with a statement `__file__ = "pkg/ops/norm.py"`, and
what follows is that file's text. Before the first part stand the parameters, which every file sees as its own
constants; the last one, `__file__ = "<call>"`, calls the function. A text whose last part is `__file__ = "<model>"`
needs no package: its files are all there is.
"""

from __future__ import annotations

import ast
import contextlib
import symtable
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from .errors import KernelError
from .source_text import source_lines
from .syntax_tree import syntax_tree

CALL = "<call>"
MODEL = "<model>"
_MARK = "__file__"


@dataclass(frozen=True)
class UserModule:
    """One module of a package, as it was read."""

    name: str
    """Dotted, as it is imported."""
    path: Path
    text: str

    @property
    def label(self) -> str:
        """The heading of the module's part of a candidate's text: the file's path below the package's folder."""
        parts = len(self.name.split(".")) + (self.path.name == "__init__.py")
        return Path(*self.path.parts[-parts:]).as_posix()


@dataclass(frozen=True)
class UserPackage:
    """Data with which processes import a user's function, and replace its modules' sources."""

    tops: Mapping[str, Path]
    """The files and folders of top-level modules that Python's own path does not lead to, by name."""
    modules: tuple[UserModule, ...]
    """The modules that a candidate may change, each after those that it imports. The last one has the function."""
    call: str
    """The part of a candidate's text that calls the function."""
    patched: bool = False
    """Whether processes see the texts of the modules in place of the files, which may have others."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that are set in these processes before the package is imported."""

    @property
    def shown(self) -> tuple[Path, ...]:
        """Additional paths that sandboxed processes must be able to read."""
        return tuple(dict.fromkeys(self.tops.values()))

    @property
    def paths(self) -> list[str]:
        """The folders that a process of the user's own has on its path."""
        return list(dict.fromkeys(str(path.parent) for path in self.tops.values()))

    @property
    def options(self) -> dict[str, Any]:
        """Options for workers, as JSON."""
        return {
            "tops": {name: str(path) for name, path in self.tops.items()},
            "modules": {item.label: [item.name, str(item.path)] for item in self.modules},
            "environment": dict(self.environment),
        }

    @cached_property
    def source(self) -> str:
        """The texts of all modules as they are, and the call."""
        return CandidateText("", {item.label: item.text for item in self.modules}, self.call).source

    @cached_property
    def digest_text(self) -> str:
        """The names and texts of all modules and the variables, of which the digest is made."""
        variables = [f"{name}={value}" for name, value in sorted(self.environment.items())]
        return "\0".join([part for item in self.modules for part in (item.name, item.text)] + variables)


@dataclass(frozen=True)
class CandidateText:
    """The parts of a candidate's text."""

    parameters: str
    files: Mapping[str, str]
    """The text of each file, by its label, in order."""
    call: str
    last: str = CALL
    """The label of the last part."""

    @property
    def source(self) -> str:
        """All parts as one text."""
        parts = [self.parameters.strip("\n")] if self.parameters.strip() else []
        for label, text in {**self.files, self.last: self.call}.items():
            parts.append(f"{_MARK} = {label!r}".replace("'", '"') + "\n" + text.rstrip("\n"))
        return "\n\n".join(parts) + "\n"

    def missing_imports(self, label: str) -> list[str]:
        """Return the imports of other parts that a file needs: what rewrites the text sees all parts as one module."""
        lacking = _unbound(self.files[label])
        found: dict[str, None] = {}
        for other in (self.parameters, self.call, *(text for name, text in self.files.items() if name != label)):
            for name, statement in _absolute_imports(other):
                if name in lacking:
                    lacking.remove(name)
                    found[statement] = None
        return list(found)

    def missing_constants(self, label: str) -> dict[str, Any]:
        """Return the literal constants of other parts that a file needs, for the same reason."""
        lacking = _unbound(self.files[label])
        found: dict[str, Any] = {}
        for other in (self.parameters, *(text for name, text in self.files.items() if name != label), self.call):
            for node in syntax_tree(other).body:
                match node:
                    case ast.Assign(targets=[ast.Name(id=name)], value=value) if name.isupper() and name in lacking:
                        with contextlib.suppress(ValueError, TypeError):
                            found[name] = ast.literal_eval(value)
        return found

    def standing_alone(self, label: str) -> str:
        """Return a file's text with the imports and the constants of other parts that it needs."""
        constants = [f"{name} = {value!r}" for name, value in self.missing_constants(label).items()]
        return with_lines(self.files[label], [*self.missing_imports(label), *constants])

    @classmethod
    def of(cls, source: str, labels: tuple[str, ...] = ()) -> CandidateText:
        """Return the parts of a text. Raises `KernelError` if one of `labels`, or the last one, has no part."""
        lines = source_lines(source, keepends=True)
        found_marks = ((node.lineno - 1, node.end_lineno or node.lineno, label) for node, label in _marks(source))
        # A user's file may assign `__file__` itself.
        marks = [mark for mark in found_marks if not labels or mark[2] in (*labels, CALL)]
        ends = [*(start for start, _, _ in marks[1:]), len(lines)]
        found = {label: "".join(lines[after:end]) for (_, after, label), end in zip(marks, ends, strict=True)}
        last = MODEL if MODEL in found else CALL
        if missing := [label for label in (*labels, last) if label not in found]:
            raise KernelError(f'the text has no part that begins with {_MARK} = "{missing[0]}"; keep these lines')
        call = found.pop(last)
        files = {name: _trimmed(text) for name, text in found.items()}
        return cls("".join(lines[: marks[0][0]]), files, call, last)


def read_module(path: Path) -> str:
    """Return a module's text, with the ends of lines that Python sees. Raises `OSError` or `UnicodeDecodeError`."""
    return path.read_bytes().decode().replace("\r\n", "\n")


def with_lines(text: str, lines: Sequence[str]) -> str:
    """Return a text with lines after the last import of its top level, or after its docstring."""
    if not lines:
        return text
    body = syntax_tree(text).body
    heads = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    docstring = [node for node in body[:1] if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
    last = (heads or docstring or [None])[-1]
    at = 0 if last is None else last.end_lineno or last.lineno
    own = source_lines(text, keepends=True)
    return "".join([*own[:at], *(f"{line}\n" for line in lines), *own[at:]])


def needs_package(source: str) -> bool:
    """Return whether a text has the parts of a user's function, which can be executed in its package only."""
    return any(label == CALL for _, label in _marks(source))


def stands_alone(source: str) -> bool:
    """Return whether a text has several parts that are all there is."""
    return any(label == MODEL for _, label in _marks(source))


def _marks(source: str) -> list[tuple[ast.stmt, str]]:
    found: list[tuple[ast.stmt, str]] = []
    for node in syntax_tree(source).body:
        if (label := part_label(node)) is not None:
            found.append((node, label))
    return found


def part_label(node: ast.stmt) -> str | None:
    """Return the label of the part that begins with a statement; None if none does."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(label))) if name == _MARK:
            return label
    return None


def _unbound(text: str) -> set[str]:
    """Return the names that a module asks its own top level for, and does not find there."""
    top = symtable.symtable(text, "<part>", "exec")
    bound = {item.get_name() for item in top.get_symbols() if item.is_assigned() or item.is_imported()}
    asked, open_ = set[str](), [top]
    while open_:
        table = open_.pop()
        open_ += table.get_children()
        asked |= {
            item.get_name()
            for item in table.get_symbols()
            if item.is_referenced() and (table is top or item.is_global())
        }
    return asked - bound


def _absolute_imports(text: str) -> Iterator[tuple[str, str]]:
    """Yield what the top-level imports of a text bind, each with the import of that alone."""
    for node in syntax_tree(text).body:
        match node:
            case ast.Import(names=names):
                yield from (
                    (item.asname or item.name.partition(".")[0], ast.unparse(ast.Import([item]))) for item in names
                )
            case ast.ImportFrom(module=module, names=names, level=0) if module != "__future__":
                yield from (
                    (item.asname or item.name, ast.unparse(ast.ImportFrom(module, [item], 0))) for item in names
                )


def _trimmed(text: str) -> str:
    return text.rstrip("\n") + "\n" if text.strip() else ""
