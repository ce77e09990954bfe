"""Functions and all that they need of their package, as one self-contained source, and where each part came from."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import libcst as cst

from .modules import Library, Module, OwnName, Package
from .references import References, references_of
from .rewriting import Rename, import_order

Rewriting = Callable[[Module, cst.CSTNode], Mapping[cst.CSTNode, str]]
"""For a statement, its expressions that are replaced, and by what; what they refer to is not needed then."""


@dataclass(frozen=True)
class Piece:
    """A statement of the user's, and what it became."""

    path: Path
    module: str
    index: int
    """Its place among the module's top-level statements."""
    names: tuple[str, ...]
    """What it defines, as the flat source calls it."""
    original: str
    text: str
    """In the flat source."""
    spelled: Mapping[str, str]
    """How its module writes the names of the flat source that were renamed."""
    imports: tuple[str, ...] = ()
    """Imports of the package within it, which the flat source does without."""


@dataclass(frozen=True)
class Inlined:
    """A self-contained source."""

    imports: tuple[str, ...]
    pieces: tuple[Piece, ...]
    names: Mapping[OwnName, str]
    """What each definition is called in the source."""
    files: Mapping[Path, str]
    """The files that it came from, as they were read."""

    @property
    def source(self) -> str:
        """The source text."""
        future = [line for line in self.imports if line.startswith("from __future__")]
        others = [line for line in self.imports if line not in future]
        body = "\n\n".join(piece.text.strip("\n") for piece in self.pieces)
        return "\n".join([*future, *sorted(others, key=import_order)]) + f"\n\n{body}\n"


def inline(
    package: Package,
    wanted: Iterable[OwnName],
    reserved: Collection[str] = (),
    rewriting: Rewriting = lambda module, statement: {},
    libraries: Collection[tuple[str, Library]] = (),
    dynamic: bool = False,
) -> Inlined:
    """Return the wanted definitions with all that they need; `reserved` names are given to none of them.

    With `dynamic`, imports by computed names stay as they are. Raises `KernelError` for what cannot be inlined: which,
    where, and why.
    """
    inliner = _Inliner(package, rewriting, dynamic)
    for one in wanted:
        inliner.need(one)
    inliner.add_mutations()
    return inliner.result(set(reserved), libraries)


class _Inliner:
    def __init__(self, package: Package, rewriting: Rewriting, dynamic: bool) -> None:
        self._package = package
        self._dynamic = dynamic
        self._rewriting = rewriting
        self._statements: dict[tuple[str, int], References] = {}
        self._replaced: dict[tuple[str, int], Mapping[cst.CSTNode, str]] = {}

    def need(self, wanted: OwnName) -> None:
        module = self._package.module(wanted.module)
        for index in module.definitions[wanted.name]:
            self._add(module, index)

    def _add(self, module: Module, index: int) -> None:
        place = module.name, index
        if place in self._statements:
            return
        statement = module.tree.body[index]
        self._replaced[place] = self._rewriting(module, statement)
        found = self._statements[place] = references_of(module, statement, self._replaced[place], self._dynamic)
        for name in module.bound(statement):
            for other in module.definitions[name]:
                self._add(module, other)
        for one in found.nodes.values():
            if isinstance(one, OwnName):
                self.need(one)

    @property
    def _order(self) -> list[str]:
        """The modules, those that others need first."""
        needs: dict[str, dict[str, None]] = {}
        for (module, _), found in self._statements.items():
            own = [one.module for one in found.nodes.values() if isinstance(one, OwnName)]
            needs.setdefault(module, {}).update(dict.fromkeys(own))
        order: dict[str, None] = {}
        open_: set[str] = set()

        def visit(module: str) -> None:
            if module in order or module in open_:
                return
            open_.add(module)
            for other in needs.get(module, ()):
                visit(other)
            order[module] = None

        for module in needs:
            visit(module)
        return list(order)

    def add_mutations(self) -> None:
        """Add the statements that change what is defined: `CONFIGS.append(...)`, `kernel.attribute = ...`."""
        before = -1
        while before != len(self._statements):
            before = len(self._statements)
            for name in self._order:
                module = self._package.module(name)
                defined = {
                    one for at in self._statements if at[0] == name for one in module.bound(module.tree.body[at[1]])
                }
                for index, statement in enumerate(module.tree.body):
                    if (name, index) not in self._statements and _changed(statement) in defined:
                        self._add(module, index)

    def result(self, reserved: set[str], libraries: Collection[tuple[str, Library]]) -> Inlined:
        taken = set(reserved)
        used = dict.fromkeys(libraries)
        for found in self._statements.values():
            used |= {one: None for one in found.nodes.values() if isinstance(one, tuple)}
        aliases: dict[tuple[str, Library], str] = {}
        merged: dict[str, Library] = {}
        for name, library in used:
            plain = library.statement.startswith("import ") and " as " not in library.statement
            same = name in merged and (plain or merged[name] == library)
            aliases[name, library] = name if same or name not in taken else _free(name, "2", taken)
            merged.setdefault(name, library)
            taken.add(aliases[name, library])
        names: dict[OwnName, str] = {}
        order = self._order
        places = sorted(self._statements, key=lambda at: (order.index(at[0]), at[1]))
        for module_name, index in reversed(places):  # what was asked for comes last, and keeps its names
            module = self._package.module(module_name)
            for name in module.bound(module.tree.body[index]):
                if OwnName(module_name, name) not in names:
                    flat = name if name not in taken else _free(name, module_name.rpartition(".")[2], taken)
                    names[OwnName(module_name, name)] = flat
                    taken.add(flat)
        imports = [line for (name, library), alias in aliases.items() for line in _renamed(library, name, alias)]
        imports += [star.statement for found in self._statements.values() for star in found.stars]
        modules = [self._package.module(name) for name in order]
        if modules and all(_has_future(module) for module in modules):
            imports.append("from __future__ import annotations")
        pieces = [self._piece(place, names, aliases) for place in places]
        files = {module.path: module.text for module in modules if module.path is not None}
        return Inlined(tuple(dict.fromkeys(imports)), tuple(pieces), names, files)

    def _piece(
        self, place: tuple[str, int], names: Mapping[OwnName, str], aliases: Mapping[tuple[str, Library], str]
    ) -> Piece:
        module = self._package.module(place[0])
        statement = module.tree.body[place[1]]
        found = self._statements[place]
        flat = {node: names[one] if isinstance(one, OwnName) else aliases[one] for node, one in found.nodes.items()}
        own = {name: names[OwnName(module.name, name)] for name in module.bound(statement)}
        changed = statement.visit(Rename({**flat, **self._replaced[place]}, set(found.imports), statement, own))
        assert isinstance(changed, cst.CSTNode) and module.path is not None
        spelled = {text: module.code(node) for node, text in flat.items() if module.code(node) != text}
        spelled |= {text: name for name, text in own.items() if name != text}
        return Piece(
            module.path,
            module.name,
            place[1],
            tuple(own.values()),
            module.code(statement),
            module.code(changed),
            spelled,
            tuple(module.code(node).strip() for node in found.imports),
        )


def _changed(statement: cst.CSTNode) -> str | None:
    """Return the name of what a statement changes without defining it."""
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return None
    node: Any = statement.body[0]
    if isinstance(node, cst.Assign) and len(node.targets) == 1:
        target: Any = node.targets[0].target
    elif isinstance(node, cst.AugAssign):
        target = node.target
    elif isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
        target = node.value.func
    else:
        return None
    if isinstance(target, cst.Name):
        return target.value if isinstance(node, cst.AugAssign) else None
    while isinstance(target, cst.Attribute | cst.Subscript):
        target = target.value
    return target.value if isinstance(target, cst.Name) else None


def _free(name: str, suffix: str, taken: Collection[str]) -> str:
    """Return a name that is not taken: with the module's name, in capitals where it is a constant."""
    candidate = f"{name}_{suffix.upper() if name.isupper() else suffix}"
    number = 2
    while candidate in taken:
        candidate, number = f"{name}_{number}", number + 1
    return candidate


def _renamed(library: Library, name: str, alias: str) -> list[str]:
    if alias == name:
        return library.statement.split("\n")
    return [re.sub(r"( as \w+)?$", f" as {alias}", library.statement)]


def _has_future(module: Module) -> bool:
    return "from __future__ import annotations" in module.text
