"""Imports a user's package in a worker, and puts a candidate's changed texts into the places of its modules."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from ...core.user_package import CandidateText, read_module, stands_alone
from .channel import Message
from .executed_again import Registries, executed_in_place, rebind, replacements, takes_from
from .modules import load
from .request_loop import CALL_FILE, USER_FILES
from .text_modules import load_text

_PLAIN = (bool, int, float, str)
"""What a constant may be that a rule wrote into one file and uses in another."""


class TopFinder:
    """Finds top-level modules in folders that are not on Python's path, and whose names a sandbox may not list."""

    def __init__(self, tops: Mapping[str, str]) -> None:
        self._tops = {name: Path(path) for name, path in tops.items()}

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """Return where such a module is; None for any other."""
        found = self._tops.get(name) if path is None else None
        if found is None:
            return None
        if not found.is_dir():
            return importlib.util.spec_from_file_location(name, found)
        init = found / "__init__.py"
        return importlib.util.spec_from_file_location(name, init, submodule_search_locations=[str(found)])


class CandidateModules:
    """Executes candidates' files: kernel files, and changed texts of a user's package."""

    def __init__(self, package: Message | None) -> None:
        """`package` has `UserPackage.options`; its modules are imported now, as the user imports them."""
        self._files: dict[str, tuple[str, str]] = {}
        self._own: dict[str, ModuleType] = {}
        self._rebound: list[tuple[ModuleType, str, Any]] = []
        """What other modules referred to before the last candidate was loaded."""
        self._registries = Registries()
        self._failure: BaseException | None = None
        if package is not None:
            self._files = {label: (name, path) for label, (name, path) in package["modules"].items()}
            enter_package(package)
            try:
                self._own = {name: importlib.import_module(name) for name, _ in self._files.values()}
            except BaseException as error:  # of the user's: the first request tells of it
                self._failure = error

    def load(
        self, name: str, path: Path, of_own_file: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> ModuleType:
        """Execute a file as a module of this name, which has `ModelNew`; unchanged files of a package `of_own_file`.

        Of a user's package the parts that differ from their files are executed in their modules' places, and those
        that take something from these when they are imported: what is imported from there afterwards is new. Other
        files are left alone: they may change what they find, and refuse to do so twice. The folder of the process gets
        a file for each part, since compilers read their functions' sources.
        """
        if not self._files:
            source = path.read_text()
            if not stands_alone(source):
                return load(name, path)
            return load_text(name, CandidateText.of(source), Path(f"{name}.files").absolute())
        if self._failure is not None:
            names = ", ".join(module for module, _ in self._files.values())
            raise ImportError(f"{names} cannot be imported: {_told(self._failure)}") from self._failure
        text = CandidateText.of(path.read_text(), tuple(self._files))
        folder = Path(f"{name}.files").absolute()
        folder.mkdir(parents=True, exist_ok=True)
        given = {key: value for key, value in _executed(text.parameters, path).items() if key.isupper()}
        self._restore()
        replaced: dict[str, dict[int, Any]] = {}
        for number, (label, source) in enumerate(text.files.items()):
            own_name, own_path = self._files[label]
            old = sys.modules[own_name]
            differs = source != read_module(Path(own_path)).rstrip("\n") + "\n"
            if not differs and not takes_from(old, source, replaced):
                continue
            place = folder / f"{number}_{label.replace('/', '.')}"
            place.write_text(source)
            USER_FILES[str(place)] = label
            imports = "\n".join(text.missing_imports(label))
            self._registries.take_out(old)
            try:
                with nullcontext() if differs else of_own_file():
                    needed = {**given, **_executed(imports, place)}
                    module = executed_in_place(own_name, own_path, source, place, needed)
            except BaseException:
                self._restore()
                raise
            replaced[own_name] = replacements(old, module)
            # What is executed next may look for it in its package; earlier candidates may be of unchanged modules.
            self._rebound += rebind(own_name, replaced[own_name], excluded=self._own)
            given |= {key: value for key, value in vars(module).items() if key.isupper() and isinstance(value, _PLAIN)}
        for own_name, objects in replaced.items():
            self._rebound += rebind(own_name, objects)
        self._registries.put_back({key: value for objects in replaced.values() for key, value in objects.items()})
        module = sys.modules[list(self._own)[-1]]
        call = ModuleType(name)
        call.__file__ = str(folder / CALL_FILE)
        Path(call.__file__).write_text(text.call)
        call.__dict__.update({key: value for key, value in vars(module).items() if not key.startswith("__")})
        sys.modules[name] = call
        exec(compile(text.call, call.__file__, "exec"), call.__dict__)
        return call

    def _restore(self) -> None:
        """Let all be as the package's import left it; candidates that are loaded keep what they have."""
        sys.modules.update(self._own)
        for module, name, value in reversed(self._rebound):
            setattr(module, name, value)
        self._rebound.clear()
        self._registries.restore()


def _told(error: BaseException) -> str:
    """Return what an import failed with, and the place in the last file that it was in."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    own = [frame for frame in frames if not frame.filename.endswith(("/user_modules.py", "/importlib/__init__.py"))]
    place = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
    return f"{type(error).__name__}: {error}{place}"


def enter_package(package: Message | None) -> None:
    """Let this process import a user's package under its variables, and name its files in messages; None is none."""
    if package is None:
        return
    os.environ.update(package.get("environment", {}))
    for label, (_, path) in package["modules"].items():
        top = Path(path).parents[label.count("/") - 1] if "/" in label else Path(path)
        USER_FILES[str(top)] = label.partition("/")[0]
    USER_FILES.update({path: Path(path).name for path in package["tops"].values()})
    if package["tops"]:
        sys.meta_path.insert(0, TopFinder(package["tops"]))


def _executed(text: str, path: Path) -> dict[str, Any]:
    """Return what a text defines."""
    found: dict[str, Any] = {}
    exec(compile(text, str(path), "exec"), found)
    del found["__builtins__"]
    return found
