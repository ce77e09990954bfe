"""Kernel languages: their names, how their kernels are recognised, and what they need. Plug-ins add languages.

`known_languages` has the built-in ones (`core.languages`), then the plug-ins: those of installed packages, by the entry
point group `kernelwright.languages`; those of the modules that the variable KERNELWRIGHT_LANGUAGES names; and those
that `register` was called with. A plug-in is a module with a `LANGUAGE` (a `Language`) and a `SUPPORT` (what evaluators
must know: `evaluators.languages.base.LanguageSupport`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from ..entry_points import EntryGroup
from .errors import OptionError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

VARIABLE = "KERNELWRIGHT_LANGUAGES"
"""Names the modules of plug-ins that no package declares, separated by commas."""
ENTRIES = EntryGroup("kernelwright.languages", "kernel language", ModuleType, "module with a LANGUAGE", VARIABLE)


class Target(StrEnum):
    """A kind of processor."""

    CUDA = "cuda"
    CPU = "cpu"

    @classmethod
    def of_device(cls, device: str) -> Target:
        """Return the kind of a device such as 'cpu', 'cuda' or 'cuda:1'."""
        return cls.CPU if device == "cpu" else cls.CUDA


@dataclass(frozen=True)
class Dialect:
    """A language for one kind of processor."""

    target: Target
    modules: tuple[str, ...]
    """A kernel that imports one of these modules, or a part of one, has this dialect unless an earlier one matches."""
    guide: str
    """The name of its guide: a Markdown file in the language's `guides`."""
    imports: str
    """Import statements at the top of its kernels, as shown to a model."""
    also_runs_on: tuple[Target, ...] = ()
    """Processors with an interpreter of the dialect. Kernels are checked there, but not timed."""


@dataclass(frozen=True)
class Language:
    """A kernel language. `str` gives its id."""

    id: str
    """Id in folder names and records: 'triton'."""
    name: str
    """Display name: 'Triton'."""
    dialects: tuple[Dialect, ...]
    """Dialects, in the order in which a source is matched against them."""
    modules: tuple[str, ...]
    """Top-level modules of the language. Kernels need the first one to run."""
    decorators: tuple[str, ...] = ()
    """Last parts of the names of decorators that make kernels: 'jit', 'prim_func'."""
    device_decorators: tuple[str, ...] = ()
    """Full names, or last parts, of decorators whose functions' bodies are in the language, not in Python."""
    host_decorators: tuple[str, ...] = ()
    """Full names of other decorators whose last part is in `decorators`."""
    packages: tuple[str, ...] = ()
    """Distributions whose versions are recorded with every evaluation."""
    installs: tuple[str, ...] = ()
    """Distributions to install on another machine, besides torch."""
    cache_variables: tuple[str, ...] = ()
    """Environment variables that name the folder of compiled kernels."""
    definition: str = r"(?!)"
    """Regular expression that matches once for each kernel that a source defines."""
    excerpt: str = r"(?!)"
    """Regular expression for an excerpt of the source in a compiler's message: the lines up to the refused one, and the
    reason."""
    noise: str = ""
    """Text that marks output without an explanation."""
    log_line: str = r"(?!)"
    """Regular expression for a remark about a line of the kernel in the output. Its group is the line number."""
    keeps_stages: bool = False
    """Whether a pipelined loop keeps as many tiles in shared memory as it has stages, on every GPU."""
    keeps_asynchronous_stages: bool = False
    """Whether an asynchronous matrix product keeps as many tiles in shared memory as it has stages, not one fewer."""
    guides: Path | None = field(default=None, repr=False)
    """The folder of its guides; None for kernelwright's own."""
    support: str = ""
    """The module that defines `SUPPORT`; empty for `kernelwright.evaluators.languages.<id>`."""

    def __str__(self) -> str:
        return self.id

    def dialect(self, target: Target) -> Dialect:
        """Return the dialect for a processor. Raises `OptionError` if there is none."""
        for dialect in self.dialects:
            if dialect.target is target:
                return dialect
        known = ", ".join(
            f"{language} for {item.target}" for language in known_languages() for item in language.dialects
        )
        raise OptionError(f"no {self.name} for {target}; there are {known}")

    def versions(self) -> str:
        """Return the versions of torch and of the language here, 'torch 2.13.0, triton 3.6.0'; empty without one."""
        from importlib.metadata import PackageNotFoundError, version

        try:
            return ", ".join(f"{package} {version(package)}" for package in ("torch", *self.packages))
        except PackageNotFoundError:
            return ""

    def runs_on(self, target: Target, processor: Target) -> bool:
        """Return whether kernels for `target` run on a processor, timed or only checked."""
        standing_in = {other for dialect in self.dialects if dialect.target is target for other in dialect.also_runs_on}
        return processor is target or processor in standing_in


def backend(language: Language, target: Target) -> str:
    """Return the name of a language on a processor in folders and options: 'triton', 'tilelang_cpu'."""
    return language.id if target is Target.CUDA else f"{language.id}_{target}"


def backends() -> tuple[str, ...]:
    """Return the names of all backends: 'tilelang_cpu', 'tilelang', 'triton'."""
    return tuple(backend(language, dialect.target) for language in known_languages() for dialect in language.dialects)


def default_backend(target: Target) -> str:
    """Return the first backend for a processor."""
    return next(name for name in backends() if of_backend(name)[1] is target)


def of_backend(name: str) -> tuple[Language, Target]:
    """Return the language and target of a backend. Raises `OptionError` for an unknown name."""
    for language in known_languages():
        for dialect in language.dialects:
            if backend(language, dialect.target) == name:
                return language, dialect.target
    raise OptionError(f"no backend {name!r}; there are {', '.join(backends())}")


def recognize(imported: Iterable[str]) -> tuple[Language, Target] | None:
    """Return the language and target of a source that imports these modules; None if it is not a kernel.

    Plug-ins are tried first: a language that is built on another one imports that too.
    """
    modules = set(imported)
    known = known_languages()
    for language in [*(item for item in known if item.id in _REGISTRY.plugins), *known]:
        for dialect in language.dialects:
            if any(module == name or module.startswith(f"{name}.") for module in modules for name in dialect.modules):
                return language, dialect.target
    return None


def cache_environment(folder: Path) -> dict[str, str]:
    """Return environment variables that make every language store compiled kernels in `folder`."""
    return {name: str(folder / language.id) for language in known_languages() for name in language.cache_variables}


class _Registry:
    """The plug-ins of this process, by id."""

    def __init__(self) -> None:
        self.plugins: dict[str, Language] = {}
        self.searched = False


_REGISTRY = _Registry()


def known_languages() -> tuple[Language, ...]:
    """Return all languages: the built-in ones, then plug-ins."""
    from .languages import BUILT_IN

    if not _REGISTRY.searched:
        _REGISTRY.searched = True  # what is loaded may ask for languages itself
        try:
            for point in (*ENTRIES.points, *_named_by_variable()):
                _add(point)
        except BaseException:
            _REGISTRY.searched = False
            raise
    return (*BUILT_IN, *_REGISTRY.plugins.values())


def find_language(name: str) -> Language:
    """Return the language with this id. Raises `OptionError` with the known ids."""
    known = {language.id: language for language in known_languages()}
    if name not in known:
        raise OptionError(
            f"no kernel language {name!r}; there are {', '.join(known)}, and {VARIABLE} names the modules of others"
        )
    return known[name]


def register(plugin: Language) -> None:
    """Register a language in this process and in all processes that it starts.

    Its `support` must be a module that they can import, with `LANGUAGE` and `SUPPORT`. Raises `OptionError` when the
    id is taken.
    """
    from .languages import BUILT_IN

    taken = {item.id: item for item in BUILT_IN} | _REGISTRY.plugins
    if not plugin.support:
        raise OptionError(f"the language {plugin.id} names no module with its support; set Language.support")
    if taken.get(plugin.id, plugin) != plugin:
        raise OptionError(f"there is another kernel language with the id {plugin.id!r}; choose another id")
    _REGISTRY.plugins[plugin.id] = plugin


def plugin_environment() -> dict[str, str]:
    """Return the environment variable that passes the plug-ins of this process to a child."""
    known_languages()
    modules = [plugin.support for plugin in _REGISTRY.plugins.values()]
    return {VARIABLE: ",".join(modules)} if modules else {}


def _named_by_variable() -> list[EntryPoint]:
    from importlib.metadata import EntryPoint

    modules = filter(None, map(str.strip, os.environ.get(VARIABLE, "").split(",")))
    return [EntryPoint(module, module, ENTRIES.name) for module in modules]


def _add(point: EntryPoint) -> None:
    found = getattr(ENTRIES.load(point), "LANGUAGE", None)
    if not isinstance(found, Language):
        raise ENTRIES.broken(point, "is a module without a LANGUAGE that is a kernelwright.core.Language")
    try:
        register(found)
    except OptionError as error:
        raise ENTRIES.broken(point, f"cannot be used ({error})") from error
