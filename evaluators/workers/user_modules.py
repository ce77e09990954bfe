"""Imports a user's package in a worker, and puts a candidate's changed texts into the places of its modules."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from ...core.user_package import CandidateText, read_module, stands_alone
from .channel import Message
from .modules import load
from .request_loop import CALL_FILE, USER_FILES
from .text_modules import load_text

_PLAIN = (bool, int, float, str)
"""What a constant may be that a rule wrote into one file and uses in another."""
_UNWRAPPED = 8
"""Decorators under which a function is looked for."""


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
        self._failure: BaseException | None = None
        if package is not None:
            self._files = {label: (name, path) for label, (name, path) in package["modules"].items()}
            enter_package(package)
            try:
                self._own = {name: importlib.import_module(name) for name, _ in self._files.values()}
            except BaseException as error:  # of the user's: the first request tells of it
                self._failure = error

    def load(self, name: str, path: Path) -> ModuleType:
        """Execute a file as a module of this name, which has `ModelNew`.

        Of a user's package each part of the text is executed in its module's place, from the first one that differs
        from its file: what is imported from there afterwards is new. The folder of the process gets a file for each
        part, since compilers read their functions' sources.
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
        sys.modules.update(self._own)
        for other, key, value in self._rebound:
            setattr(other, key, value)
        module = list(self._own.values())[-1]
        replaced: list[tuple[ModuleType, ModuleType]] = []
        for number, (label, source) in enumerate(text.files.items()):
            if not replaced and source == read_module(Path(self._files[label][1])).rstrip("\n") + "\n":
                continue
            place = folder / f"{number}_{label.replace('/', '.')}"
            place.write_text(source)
            USER_FILES[str(place)] = label
            imports = "\n".join(text.missing_imports(label))
            old = sys.modules[self._files[label][0]]
            _forget_operators(old)
            try:
                module = _executed_in_place(*self._files[label], source, place, {**given, **_executed(imports, place)})
            except BaseException:
                for before, after in replaced:
                    sys.modules[after.__name__] = before
                raise
            replaced.append((old, module))
            given |= {key: value for key, value in vars(module).items() if key.isupper() and isinstance(value, _PLAIN)}
        # The modules of earlier candidates are no longer among those that may refer to them.
        self._rebound = [change for before, after in replaced for change in _rebind(before, after)]
        call = ModuleType(name)
        call.__file__ = str(folder / CALL_FILE)
        Path(call.__file__).write_text(text.call)
        call.__dict__.update({key: value for key, value in vars(module).items() if not key.startswith("__")})
        sys.modules[name] = call
        exec(compile(text.call, call.__file__, "exec"), call.__dict__)
        return call


def _executed_in_place(name: str, path: str, source: str, place: Path, given: Mapping[str, Any]) -> ModuleType:
    """Execute a text in the place of a module."""
    old: Any = sys.modules[name]
    module = ModuleType(name)
    module.__file__, module.__spec__ = path, old.__spec__
    module.__package__ = name if hasattr(old, "__path__") else name.rpartition(".")[0]
    if hasattr(old, "__path__"):
        module.__path__ = old.__path__
        module.__dict__.update({key: value for key, value in vars(old).items() if isinstance(value, ModuleType)})
    module.__dict__.update(given)
    sys.modules[name] = module
    try:
        with _defining_again():
            exec(compile(source, str(place), "exec", dont_inherit=True), module.__dict__)
    except BaseException:
        sys.modules[name] = old
        raise
    return module


def _told(error: BaseException) -> str:
    """Return what an import failed with, and the place in the last file that it was in."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    own = [frame for frame in frames if not frame.filename.endswith(("/user_modules.py", "/importlib/__init__.py"))]
    place = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
    return f"{type(error).__name__}: {error}{place}"


def _forget_operators(module: ModuleType) -> None:
    """Remove the operators that a module registered with torch: it registers them again when it is executed again."""
    from torch.library import Library

    for value in vars(module).values():
        if isinstance(value, Library):
            value._destroy()


@contextlib.contextmanager
def _defining_again() -> Iterator[None]:
    """Let a module that is executed again define operators once more in a library that another module holds.

    Their implementations are replaced: torch allows that.
    """
    from torch.library import Library

    define = Library.define

    def once(library: Any, schema: str, *arguments: Any, **options: Any) -> Any:
        name = schema.split("(")[0]
        known = f"{library.ns}::{name}" in library._op_defs
        return name if known else define(library, schema, *arguments, **options)

    Library.define = once
    try:
        yield
    finally:
        Library.define = define


def _executed(text: str, path: Path) -> dict[str, Any]:
    """Return what a text defines."""
    found: dict[str, Any] = {}
    exec(compile(text, str(path), "exec"), found)
    del found["__builtins__"]
    return found


def enter_package(package: Message | None) -> None:
    """Let this process import a user's package, and name its files in messages; None is no package."""
    if package is None:
        return
    for label, (_, path) in package["modules"].items():
        top = Path(path).parents[label.count("/") - 1] if "/" in label else Path(path)
        USER_FILES[str(top)] = label.partition("/")[0]
    USER_FILES.update({path: Path(path).name for path in package["tops"].values()})
    if package["tops"]:
        sys.meta_path.insert(0, TopFinder(package["tops"]))


def _rebind(old: ModuleType, new: ModuleType) -> list[tuple[ModuleType, str, Any]]:
    """Replace what a module defined by what the new one defines, wherever a module has it as an attribute.

    Returns the attributes that changed, and what they were.
    """
    changed: list[tuple[ModuleType, str, Any]] = []
    replaced = {id(old): new}
    for key, value in vars(old).items():
        if _defined_in(value) == old.__name__ and key in vars(new):
            replaced[id(value)] = vars(new)[key]
    for module in _of_same_package(old.__name__):
        if module is new:
            continue
        for key, value in list(vars(module).items()):
            if id(value) in replaced:
                changed.append((module, key, value))
                setattr(module, key, replaced[id(value)])
    return changed


def _of_same_package(name: str) -> Iterator[ModuleType]:
    first = name.partition(".")[0]
    for other, module in list(sys.modules.items()):
        if other.partition(".")[0] == first and isinstance(module, ModuleType):
            yield module


def _defined_in(value: Any) -> str | None:
    """Return the module in which a function, a class or a kernel is defined; None for any other object."""
    for _ in range(_UNWRAPPED):
        if isinstance(value, FunctionType | type):
            return value.__module__
        value = getattr(value, "fn", None) or getattr(value, "__wrapped__", None)
        if value is None:
            return None
    return None
