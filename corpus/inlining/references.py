"""What the names in a statement of a user's module refer to: definitions of the package, or libraries."""

from __future__ import annotations

import builtins
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import libcst as cst
from libcst.metadata import BuiltinScope, GlobalScope, ImportAssignment, Scope

from ...core import KernelError
from .modules import Library, Meaning, Module, OwnModule, OwnName, Package

_DYNAMIC = {
    "__import__": "a dynamic import",
    "exec": "code from a text",
    "eval": "code from a text",
    "globals": "names that are computed",
    "__file__": "the place of the file",
    "__path__": "the place of the package",
    "__package__": "the package's own name",
    "__spec__": "the way it was imported",
}
_IMPORTERS = ("import_module", "spec_from_file_location")


@dataclass
class References:
    """The references of one statement."""

    nodes: dict[cst.CSTNode, tuple[str, Library] | OwnName] = field(default_factory=dict)
    """Each name, or chain of attributes, that stands for a definition, or for what a library's import binds."""
    imports: list[cst.CSTNode] = field(default_factory=list)
    """Imports of the package within functions, which go."""
    stars: set[Library] = field(default_factory=set)
    """Imports of all names of a library, where a name is known from nowhere else."""
    hidden: dict[cst.CSTNode, set[str]] = field(default_factory=dict)
    """For each of `nodes`, the names that stand for something local there, so that it must not be called so."""
    free: set[str] = field(default_factory=set)
    """Python's own names, and others that are known from nowhere: nothing else must be called so."""


def references_of(
    module: Module, statement: cst.CSTNode, skipped: Collection[cst.CSTNode] = (), dynamic: bool = False
) -> References:
    """Return what a top-level statement refers to, without the `skipped` expressions.

    Raises `KernelError` for what cannot be followed: compiled modules, computed names, and unless they are `dynamic`,
    since the source runs here and now, imports by names that are computed.
    """
    walk = _Walk(module, skipped, dynamic)
    walk.node(statement)
    return walk.found


def definition_of(package: Package, module: str, name: str, where: str) -> Meaning:
    """Follow a name through the modules that import it from each other, to where it is defined."""
    seen = set()
    while (module, name) not in seen:
        seen.add((module, name))
        there = package.module(module)
        if name in there.definitions:
            return OwnName(module, name)
        found = there.imports.get(name)
        if found is None and package.places.exists(f"{module}.{name}" if module else name):
            return OwnModule(f"{module}.{name}" if module else name)
        if found is None:
            break
        if not isinstance(found, OwnName):
            return found
        module, name = found.module, found.name
    raise KernelError(
        f"{where}: module {module} defines no {name} in its text, so it cannot be inlined; "
        "import it from where it is defined"
    )


class _Walk:
    def __init__(self, module: Module, skipped: Collection[cst.CSTNode], dynamic: bool) -> None:
        self.module = module
        self.dynamic = dynamic
        self.skipped = set(skipped)
        self.found = References()

    def node(self, node: cst.CSTNode) -> None:
        if node in self.skipped:
            return
        if isinstance(node, cst.Attribute):
            self._attribute(node)
        elif isinstance(node, cst.Name):
            self._name(node)
        elif isinstance(node, cst.Arg):
            self.node(node.value)
        elif isinstance(node, cst.Param):
            self._all(node.annotation, node.default)
        elif isinstance(node, cst.FunctionDef):
            self._all(*node.decorators, node.params, node.returns, node.body)
        elif isinstance(node, cst.ClassDef):
            self._all(*node.decorators, *node.bases, *node.keywords, node.body)
        elif isinstance(node, cst.Import | cst.ImportFrom):
            self._import(node)
        elif isinstance(node, cst.MatchKeywordElement):
            self.node(node.pattern)
        elif isinstance(node, cst.Global):
            for item in node.names:
                self._note(item.name, item.name.value, self._of_module(item.name), self.module.scope(node))
        else:
            self._all(*node.children)

    def _all(self, *nodes: Any) -> None:
        for node in nodes:
            if isinstance(node, cst.CSTNode):
                self.node(node)

    def _import(self, node: cst.Import | cst.ImportFrom) -> None:
        meanings = self.module.meanings(node).values()
        if all(isinstance(meaning, Library) for meaning in meanings):
            return
        if isinstance(self.module.scope(node), GlobalScope):
            raise KernelError(
                f"{self._where(node)}: whether '{self.module.code(node).strip()}' is used shows only when it runs; "
                "import it unconditionally"
            )
        self.found.imports.append(node)

    def _attribute(self, node: cst.Attribute) -> None:
        chain: list[cst.Attribute] = [node]
        while isinstance(inner := chain[-1].value, cst.Attribute):
            chain.append(inner)
        if not isinstance(inner, cst.Name):
            self.node(inner)
            return
        meaning = self._meaning(inner)
        if not isinstance(meaning, OwnModule):
            if (
                isinstance(meaning, Library)
                and not self.dynamic
                and any(item.attr.value in _IMPORTERS for item in chain)
            ):
                raise KernelError(f"{self._where(inner)}: a dynamic import cannot be inlined; import it by its name")
            self._name(inner)
            return
        for one in reversed(chain):
            meaning = definition_of(self.module.package, meaning.module, one.attr.value, self._where(inner))
            if not isinstance(meaning, OwnModule):
                self._note(one, one.attr.value, meaning, self.module.scope(inner))
                return
        self._refuse_module(inner, meaning)

    def _name(self, node: cst.Name) -> None:
        meaning = self._meaning(node)
        if isinstance(meaning, OwnModule):
            self._refuse_module(node, meaning)
        self._note(node, node.value, meaning, self.module.scope(node))

    def _note(self, node: cst.CSTNode, name: str, meaning: Meaning | None, scope: Scope | None) -> None:
        if isinstance(meaning, Library):
            self.found.nodes[node] = (name, meaning)
        elif isinstance(meaning, OwnName):
            self.found.nodes[node] = meaning
        else:
            return
        own = {node.value} if isinstance(node, cst.Name) else set()
        self.found.hidden[node] = _local_names(scope) - own

    def _refuse_module(self, node: cst.CSTNode, meaning: OwnModule) -> None:
        raise KernelError(
            f"{self._where(node)}: the module {meaning.module} is used as a value, so it is not known what is "
            "taken of it; name that"
        )

    def _meaning(self, node: cst.Name) -> Meaning | None:
        """Return what a name stands for; None for a local one, and for one of Python's own."""
        scope, name = self.module.scope(node), node.value
        if scope is None:
            return None
        local = [item for item in scope[name] if not isinstance(item.scope, GlobalScope | BuiltinScope)]
        if local:
            imports = [item for item in local if isinstance(item, ImportAssignment)]
            if not imports:
                return None
            bound = self.module.meanings(imports[0].node).get(name)  # type: ignore[arg-type]
            if bound is None or isinstance(bound, Library):
                return None  # that import stays where it is
            return self._followed(node, bound)
        return self._of_module(node)

    def _of_module(self, node: cst.Name) -> Meaning | None:
        """Return what a name stands for at the top level of the module."""
        name = node.value
        bound = OwnName(self.module.name, name) if name in self.module.definitions else self.module.imports.get(name)
        if bound is not None:
            return self._followed(node, bound)
        self.found.free.add(name)
        if name in _DYNAMIC:
            raise KernelError(f"{self._where(node)}: {name} asks for {_DYNAMIC[name]}, which cannot be inlined")
        if not hasattr(builtins, name) and (star := self.module.imports.get("*")) is not None:
            assert isinstance(star, Library)
            self.found.stars.add(star)
        return None

    def _followed(self, node: cst.Name, bound: Meaning) -> Meaning:
        if isinstance(bound, OwnName):
            return definition_of(self.module.package, bound.module, bound.name, self._where(node))
        return bound

    def _where(self, node: cst.CSTNode) -> str:
        return f"{self.module}, line {self.module.line(node)}"


def _local_names(scope: Scope | None) -> set[str]:
    """Return the names that stand for something local in a scope."""
    found: set[str] = set()
    while scope is not None and not isinstance(scope, GlobalScope | BuiltinScope):
        found |= {assignment.name for assignment in scope.assignments}
        scope = scope.parent
    return found
