"""Executes a text of several files that needs no package: its parts are all there is, and import each other.

Each text has modules of its own, so that several may be loaded at once: what a part imports by a name that is a part's
is that part of the same text, however late it is imported.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from ...core.user_package import CandidateText
from .request_loop import CALL_FILE


def load_text(name: str, text: CandidateText, folder: Path) -> ModuleType:
    """Execute the model of a text as a module of this name, and the parts that it imports.

    The folder gets a file for each part, since compilers read their functions' sources.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for label, source in text.files.items():
        (folder / label).parent.mkdir(parents=True, exist_ok=True)
        (folder / label).write_text(source)
    call = folder / CALL_FILE
    call.write_text(text.call)
    prefix = f"{name}_files"
    for known in [item for item in sys.modules if item == prefix or item.startswith(f"{prefix}.")]:
        del sys.modules[known]
    sys.meta_path[:] = [item for item in sys.meta_path if getattr(item, "prefix", None) != prefix]
    finder = _PartFinder(prefix, text, folder)
    sys.meta_path.insert(0, finder)
    module = ModuleType(name)
    module.__file__ = str(call)
    module.__dict__.update(finder.given(CALL_FILE))
    sys.modules[name] = module
    exec(compile(text.call, str(call), "exec", dont_inherit=True), module.__dict__)
    return module


class _PartFinder:
    """Finds the parts of a text as modules below a name that only this text has."""

    def __init__(self, prefix: str, text: CandidateText, folder: Path) -> None:
        self.prefix = prefix
        self._text = text
        self._folder = folder
        self._labels = {_dotted(label): label for label in text.files if label.endswith(".py")}
        self._tops = {dotted.partition(".")[0] for dotted in self._labels if self._is_own(dotted.partition(".")[0])}

    def _is_own(self, top: str) -> bool:
        """Return whether a name is the text's; a folder that is not a package gives way to a library of its name."""
        if top in self._labels:
            return True
        try:
            found = importlib.util.find_spec(top)
        except (ImportError, ValueError):
            return True
        return found is None or found.origin is None

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """Return where a part of this text is; None for any other module."""
        if name != self.prefix and not name.startswith(f"{self.prefix}."):
            return None
        dotted = name.removeprefix(self.prefix).removeprefix(".")
        label = self._labels.get(dotted)
        if label is not None:
            file = self._folder / label
            inside = [str(file.parent)] if file.name == "__init__.py" else None
            loader = _PartLoader(name, str(file), self.given(label))
            return importlib.util.spec_from_file_location(name, file, loader=loader, submodule_search_locations=inside)
        if dotted and not any(other.startswith(f"{dotted}.") for other in self._labels):
            return None
        folder = ModuleSpec(name, None, is_package=True)
        folder.submodule_search_locations = [str(self._folder.joinpath(*dotted.split(".")))]
        return folder

    def given(self, label: str) -> dict[str, Any]:
        """Return what a file has before it is executed: the parameters, what it needs of others, its own imports."""
        found: dict[str, Any] = {"__builtins__": {**vars(builtins), "__import__": self._import}}
        exec(compile(self._text.parameters, "<parameters>", "exec"), found)
        if label in self._text.files:
            found |= self._text.missing_constants(label)
            exec(compile("\n".join(self._text.missing_imports(label)), "<imports>", "exec"), found)
        return found

    def _import(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] = (),
        level: int = 0,
    ) -> ModuleType:
        """Import a module as Python does, and a part of this text by the name that it has there."""
        really: Callable[..., ModuleType] = builtins.__import__
        top = name.partition(".")[0]
        if level or top not in self._tops:
            return really(name, globals, locals, fromlist or (), level)
        found = importlib.import_module(f"{self.prefix}.{name}")
        return really(found.__name__, globals, locals, fromlist, 0) if fromlist else sys.modules[f"{self.prefix}.{top}"]


class _PartLoader(SourceFileLoader):
    """Executes a part with what it is given."""

    def __init__(self, name: str, path: str, given: Mapping[str, Any]) -> None:
        super().__init__(name, path)
        self._given = given

    def exec_module(self, module: ModuleType) -> None:
        """Execute it."""
        module.__dict__.update(self._given)
        super().exec_module(module)


def _dotted(label: str) -> str:
    parts = label.removesuffix(".py").split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
