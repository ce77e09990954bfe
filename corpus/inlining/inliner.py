"""Functions and all that they need of their package, as one self-contained source, and where each part came from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import libcst as cst
from libcst import matchers

from ...core import KernelError
from .modules import Library, Module, OwnModule, OwnName, Package, for_types_only
from .naming import Names
from .references import References, definition_of, references_of
from .rewriting import Rename, import_order
from .statements import changed_by, is_plain, unknown_types

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
    header: str = ""
    """The comments at the top of the files that are in it as a whole, such as their licences."""

    @property
    def source(self) -> str:
        """The source text."""
        future = [line for line in self.imports if line.startswith("from __future__")]
        others = [line for line in self.imports if line not in future]
        body = "\n\n".join(piece.text.strip("\n") for piece in self.pieces)
        return self.header + "\n".join([*future, *sorted(others, key=import_order)]) + f"\n\n{body}\n"


def inline(
    package: Package,
    wanted: Iterable[OwnName],
    reserved: Collection[str] = (),
    rewriting: Rewriting = lambda module, statement: {},
    libraries: Collection[tuple[str, Library]] = (),
    dynamic: bool = False,
    whole: Collection[str] = (),
) -> Inlined:
    """Return the wanted definitions with all that they need; `reserved` names are given to none of them.

    With `dynamic`, imports by computed names stay as they are. The modules `whole` come as a whole, and so do those
    that they import: what they do when they are imported counts. Raises `KernelError` for what cannot be
    inlined: which, where, and why.
    """
    inliner = _Inliner(package, rewriting, dynamic)
    for name in whole:
        inliner.need_whole(name)
    for item in wanted:
        inliner.need(item)
    inliner.add_mutations()
    return inliner.result(set(reserved), libraries)


class _Inliner:
    def __init__(self, package: Package, rewriting: Rewriting, dynamic: bool) -> None:
        self._package = package
        self._dynamic = dynamic
        self._rewriting = rewriting
        self._statements: dict[tuple[str, int], References] = {}
        self._replaced: dict[tuple[str, int], Mapping[cst.CSTNode, str]] = {}
        self._whole: dict[str, list[str]] = {}
        """The modules that are needed as a whole, and which of the package's they import."""
        self._libraries: list[tuple[str, Library]] = []
        self._stars: list[str] = []
        """The libraries that those import."""
        self._way: list[str] = []
        """The names through which the statement at hand was reached."""

    def need_whole(self, name: str) -> None:
        """Add all statements of a module, and of those that it imports."""
        if name in self._whole:
            return
        module, imported = self._package.module(name), self._whole.setdefault(name, [])
        for bound, meaning in module.imports.items():
            if isinstance(meaning, OwnName):
                definition_of(self._package, meaning.module, meaning.name, str(module))  # or it raises
            if isinstance(meaning, OwnName | OwnModule):
                imported.append(meaning.module)
                self.need_whole(meaning.module)
            elif bound == "*":
                self._stars.append(meaning.statement)
            elif not meaning.statement.startswith("from __future__"):
                self._libraries.append((bound, meaning))
        for index, statement in enumerate(module.tree.body):
            if not (is_plain(statement) or for_types_only(statement)):
                self._add(module, index)

    def need(self, wanted: OwnName) -> None:
        module = self._package.module(wanted.module)
        self._way.append(wanted.name)
        for index in module.definitions[wanted.name]:
            self._add(module, index)
        self._way.pop()

    def _add(self, module: Module, index: int) -> None:
        place = module.name, index
        if place in self._statements:
            return
        statement = module.tree.body[index]
        try:
            self._replaced[place] = self._rewriting(module, statement)
            found = self._statements[place] = references_of(module, statement, self._replaced[place], self._dynamic)
        except KernelError as error:
            way = ", which uses ".join(self._way).replace(", which", "", 1)
            raise KernelError(f"{error} ({way})" if len(self._way) > 1 else str(error)) from None
        for name in module.bound(statement):
            for other in module.definitions[name]:
                self._add(module, other)
        for node in found.nodes.values():
            if isinstance(node, OwnName):
                self.need(node)

    @property
    def _order(self) -> list[str]:
        """The modules, those that others need first."""
        needs = {name: dict.fromkeys(imported) for name, imported in self._whole.items()}
        for (module, _), found in self._statements.items():
            own = [node.module for node in found.nodes.values() if isinstance(node, OwnName)]
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
                    item for at in self._statements if at[0] == name for item in module.bound(module.tree.body[at[1]])
                }
                for index, statement in enumerate(module.tree.body):
                    if (name, index) not in self._statements and changed_by(statement) in defined:
                        self._add(module, index)

    def result(self, reserved: Collection[str], libraries: Collection[tuple[str, Library]]) -> Inlined:
        found = self._statements.values()
        names = Names(found, reserved)
        used = dict.fromkeys([*libraries, *self._libraries])
        for one in found:
            used |= {meaning: None for meaning in one.nodes.values() if isinstance(meaning, tuple)}
        for name, library in used:
            names.add_library(name, library)
        order = self._order
        places = sorted(self._statements, key=lambda at: (order.index(at[0]), at[1]))
        for module_name, index in reversed(places):  # what was asked for comes last, and keeps its names
            module = self._package.module(module_name)
            for name in module.bound(module.tree.body[index]):
                if OwnName(module_name, name) not in names.own:
                    names.add_own(OwnName(module_name, name))
        imports = [*names.imports(), *(star.statement for item in found for star in item.stars), *self._stars]
        modules = [self._package.module(name) for name in order]
        future = self._has_future(modules)
        if future:
            imports.append("from __future__ import annotations")
        pieces = [self._piece(place, names, future) for place in places]
        files = {module.path: module.text for module in modules if module.path is not None}
        headers = [module.header for module in modules if module.name in self._whole]
        return Inlined(tuple(dict.fromkeys(imports)), tuple(pieces), names.own, files, "".join(headers))

    def _has_future(self, modules: Sequence[Module]) -> bool:
        """Return whether annotations are not evaluated: in none of the modules that have some."""
        annotated = {
            name
            for name, index in self._statements
            if matchers.findall(self._package.module(name).tree.body[index], matchers.Annotation())
        }
        lazy = {module.name for module in modules if "from __future__ import annotations" in module.text}
        return bool(lazy) and annotated <= lazy

    def _piece(self, place: tuple[str, int], names: Names, future: bool) -> Piece:
        module = self._package.module(place[0])
        statement = module.tree.body[place[1]]
        found = self._statements[place]
        flat = {
            node: names.own[one] if isinstance(one, OwnName) else names.libraries[one]
            for node, one in found.nodes.items()
        }
        own = {name: names.own[OwnName(module.name, name)] for name in module.bound(statement)}
        texts = {**flat, **self._replaced[place], **({} if future else unknown_types(statement, found.free))}
        changed = statement.visit(Rename(texts, set(found.imports), statement, own))
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
