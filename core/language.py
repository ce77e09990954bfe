"""Kernel languages: what each is called, how its kernels are recognised, and what it needs; plug-ins add more.

`known_languages` has the built-in ones (`core.languages`), then the plug-ins: those of installed packages, by the entry
point group `kernelwright.languages`; those of the modules that the variable KERNELWRIGHT_LANGUAGES names; and those
that `register` was called with. A plug-in is a module with a `LANGUAGE` (a `Language`) and a `SUPPORT` (what evaluators
must know: `evaluators.languages.base.LanguageSupport`).
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from .errors import OptionError

ENTRY_POINTS = "kernelwright.languages"
VARIABLE = "KERNELWRIGHT_LANGUAGES"
"""Names the modules of plug-ins that no package declares, separated by commas."""


class Target(StrEnum):
    """A kind of processor."""

    CUDA = "cuda"
    CPU = "cpu"

    @classmethod
    def of_device(cls, device: str) -> Target:
        """The kind of a device such as 'cpu', 'cuda' or 'cuda:1'."""
        return cls.CPU if device == "cpu" else cls.CUDA


@dataclass(frozen=True)
class Dialect:
    """A language as it is written for one kind of processor."""

    target: Target
    modules: tuple[str, ...]
    """A kernel that imports one of these, or what lies in it, is of this dialect unless an earlier one fits."""
    guide: str
    """The name of its guide: a Markdown file in the language's `guides`."""
    imports: str
    """The import statements with which its kernels begin, as a model is shown them."""
    also_runs_on: tuple[Target, ...] = ()
    """Where an interpreter stands in for the target: kernels are checked there, and not timed."""


@dataclass(frozen=True)
class Language:
    """A kernel language. Its text is its id."""

    id: str
    """'triton': the name of its folders, and what records hold."""
    name: str
    """'Triton', for people."""
    dialects: tuple[Dialect, ...]
    """In the order in which a source is asked for them."""
    modules: tuple[str, ...]
    """The top-level modules that its names come from; the first must be there for kernels to run."""
    decorators: tuple[str, ...] = ()
    """The last part of the names of decorators that make kernels: 'jit', 'prim_func'."""
    device_decorators: tuple[str, ...] = ()
    """Full names, or last parts, of decorators whose functions' bodies are in the language, not in Python."""
    host_decorators: tuple[str, ...] = ()
    """Full names that are no such decorators, though their last part is one's."""
    packages: tuple[str, ...] = ()
    """Distributions whose versions are part of every record."""
    installs: tuple[str, ...] = ()
    """Distributions to install on another machine; torch is there."""
    cache_variables: tuple[str, ...] = ()
    """Environment variables that name the folder of compiled kernels."""
    definition: str = r"(?!)"
    """A regular expression for what stands once in a source for each kernel that it defines."""
    excerpt: str = r"(?!)"
    """A regular expression for a compiler's excerpt of the source in a message: its lines up to the one that is
    refused, and the reason."""
    noise: str = ""
    """A text that marks output without an explanation."""
    log_line: str = r"(?!)"
    """A regular expression for a remark about a line of the kernel in the output; its group is the line's number."""
    keeps_stages: bool = False
    """Whether a pipelined loop keeps as many tiles in shared memory as it has stages, on every GPU."""
    keeps_asynchronous_stages: bool = False
    """Whether an asynchronous matrix product keeps as many tiles in shared memory as it has stages, not one fewer."""
    guides: Path | None = field(default=None, repr=False)
    """The folder of its guides; None for kernelwright's own."""
    support: str = ""
    """The module with its `SUPPORT`; empty for `kernelwright.evaluators.languages.<id>`."""

    def __str__(self) -> str:
        return self.id

    def dialect(self, target: Target) -> Dialect:
        """The language as it is written for a processor; raises `OptionError` where it is not."""
        for one in self.dialects:
            if one.target is target:
                return one
        known = ", ".join(
            f"{language} for {item.target}" for language in known_languages() for item in language.dialects
        )
        raise OptionError(f"no {self.name} for {target}; there are {known}")

    def runs_on(self, target: Target, processor: Target) -> bool:
        """Whether kernels for `target` run on a processor, timed or only checked."""
        standing_in = {other for dialect in self.dialects if dialect.target is target for other in dialect.also_runs_on}
        return processor is target or processor in standing_in


def backend(language: Language, target: Target) -> str:
    """A language on a processor in one word, as folders and options have it: 'triton', 'tilelang_cpu'."""
    return language.id if target is Target.CUDA else f"{language.id}_{target}"


def backends() -> tuple[str, ...]:
    """All languages on all processors that they are written for: 'tilelang_cpu', 'tilelang', 'triton'."""
    return tuple(backend(language, dialect.target) for language in known_languages() for dialect in language.dialects)


def default_backend(target: Target) -> str:
    """Of a processor: the first that is written for it."""
    return next(name for name in backends() if of_backend(name)[1] is target)


def of_backend(name: str) -> tuple[Language, Target]:
    """The inverse of `backend`; raises `OptionError` for a name that is none."""
    for language in known_languages():
        for dialect in language.dialects:
            if backend(language, dialect.target) == name:
                return language, dialect.target
    raise OptionError(f"no backend {name!r}; there are {', '.join(backends())}")


def recognize(imported: Iterable[str]) -> tuple[Language, Target] | None:
    """The language and target of a source that imports these modules; None where it is none.

    Plug-ins are asked first: what is built on a language imports that too.
    """
    modules = set(imported)
    known = known_languages()
    for language in [*(item for item in known if item.id in _REGISTRY.plugins), *known]:
        for one in language.dialects:
            if any(module == name or module.startswith(f"{name}.") for module in modules for name in one.modules):
                return language, one.target
    return None


def cache_environment(folder: Path) -> dict[str, str]:
    """Environment variables with which every language keeps compiled kernels under `folder`."""
    return {name: str(folder / language.id) for language in known_languages() for name in language.cache_variables}


class _Registry:
    """The plug-ins of this process, by id."""

    def __init__(self) -> None:
        self.plugins: dict[str, Language] = {}
        self.searched = False


_REGISTRY = _Registry()


def known_languages() -> tuple[Language, ...]:
    """All languages: the built-in ones, then plug-ins."""
    from .languages import BUILT_IN

    if not _REGISTRY.searched:
        _REGISTRY.searched = True
        for module in [*_installed(), *filter(None, os.environ.get(VARIABLE, "").split(","))]:
            register(_load(module.strip()))
    return (*BUILT_IN, *_REGISTRY.plugins.values())


def find_language(name: str) -> Language:
    """The language with this id; raises `OptionError` that names those that there are."""
    known = {language.id: language for language in known_languages()}
    if name not in known:
        raise OptionError(
            f"no kernel language {name!r}; there are {', '.join(known)}, and {VARIABLE} names the modules of others"
        )
    return known[name]


def register(plugin: Language) -> None:
    """Make a language known to this process and to all that it starts.

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
    """The variable by which a process that is started knows the plug-ins of this one."""
    known_languages()
    modules = [plugin.support for plugin in _REGISTRY.plugins.values()]
    return {VARIABLE: ",".join(modules)} if modules else {}


def _installed() -> list[str]:
    from importlib.metadata import entry_points

    return [point.module for point in entry_points(group=ENTRY_POINTS)]


def _load(module: str) -> Language:
    try:
        found = importlib.import_module(module).LANGUAGE
    except Exception as error:
        raise OptionError(
            f"the kernel language in {module} cannot be loaded ({type(error).__name__}: {error}); "
            f"fix it, or take it out of {VARIABLE}"
        ) from None
    if not isinstance(found, Language):
        raise OptionError(f"LANGUAGE of {module} is no kernelwright.core.Language")
    return found
