"""What definitions and libraries are called in the flat source."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from .modules import Library, OwnName
from .references import References


class Names:
    """Gives each a name of its own, which means nothing else wherever it is used: the same one, where that is free."""

    def __init__(self, found: Collection[References], reserved: Collection[str]) -> None:
        """`found` are the references of the source's statements; `reserved` names are given to nothing."""
        self.own: dict[OwnName, str] = {}
        self.libraries: dict[tuple[str, Library], str] = {}
        self._merged: dict[str, Library] = {}
        self._taken = {*reserved, *(name for item in found for name in item.free)}
        self._hidden: dict[OwnName | tuple[str, Library], set[str]] = {}
        for one in found:
            for node, meaning in one.nodes.items():
                self._hidden.setdefault(meaning, set()).update(one.hidden[node])

    def add_library(self, name: str, library: Library) -> None:
        """Name what an import binds; whole modules under one name, such as torch and torch.nn, keep it together."""
        one, merged = (name, library), self._merged.get(name)
        plain = library.statement.startswith("import ") and " as " not in library.statement
        same = merged is not None and (plain or merged == library)
        self.libraries[one] = self.libraries[name, merged] if merged and same else self._free(one, name, "2")
        self._merged.setdefault(name, library)
        self._taken.add(self.libraries[one])

    def add_own(self, one: OwnName) -> None:
        """Name a definition: one that may not keep its name also has its module's, in capitals for a constant."""
        suffix = one.module.rpartition(".")[2]
        self.own[one] = self._free(one, one.name, suffix.upper() if one.name.isupper() else suffix)
        self._taken.add(self.own[one])

    def imports(self) -> Iterable[str]:
        """Return the imports of the libraries."""
        for (name, library), alias in self.libraries.items():
            if alias == name:
                yield from library.statement.split("\n")
            else:
                for line in library.statement.split("\n"):
                    yield from _renamed(line, alias)

    def _free(self, one: OwnName | tuple[str, Library], name: str, suffix: str) -> str:
        taken, number = self._taken | self._hidden.get(one, set()), 2
        found = name if name not in taken else f"{name}_{suffix}"
        while found in taken:
            found, number = f"{name}_{suffix}_{number}", number + 1
        return found


def _renamed(line: str, alias: str) -> Iterable[str]:
    """Yield an import under another name; `import torch.nn` binds torch, and gives it an attribute."""
    name = line.removeprefix("import ")
    if name != line and " as " not in line and "." in name:
        first, _, rest = name.partition(".")
        yield f"import {first} as {alias}"
        yield f"{line} as {alias}_{rest.replace('.', '_')}"
    else:
        yield f"{line.partition(' as ')[0]} as {alias}"
