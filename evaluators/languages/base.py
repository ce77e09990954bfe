"""Interface between evaluators and kernel languages: one `LanguageSupport` for each language, in its own file."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Protocol

from ...core import Language, OptionError, Target, known_languages
from ...core.launch_plan import KernelCode


class UntraceableCallError(Exception):
    """Something that only a real call on the real device can show."""


@dataclass(frozen=True)
class RecordedLaunch:
    """One launch: what runs, and on what."""

    code: str
    """Lowered code, and whatever else decides what the device does with it."""
    settings: dict[str, Any]
    grid: list[int]
    arguments: list[Any]
    shared_bytes: int | None = None
    signature: tuple[str, ...] = ()
    """Types of all parameters, for `LanguageSupport.build_helpers`; empty where nothing is compiled for them."""
    compiled: Callable[[], CompiledKernel] | None = None
    """Reads the resources of what is launched; None where nothing can."""


class LaunchRecorder(Protocol):
    """Takes a launch: its code, arguments in the order of `KernelCode.parameters`, and the grid, if the code has none.

    A tensor descriptor among the arguments has the fields of `replay.values.Descriptor`.
    """

    def __call__(self, code: KernelCode, arguments: Sequence[Any], grid: Sequence[int] = ()) -> None:
        """Take one launch."""


@dataclass(frozen=True)
class CompiledKernel:
    """One kernel in machine code."""

    name: str
    """As the device and the profiler call it."""
    registers: int
    """32-bit registers per thread."""
    spills: int
    """Local memory in bytes per thread: what did not fit into registers, and arrays with computed indices."""
    shared_bytes: int | None = None
    """Per block, static and dynamic; None where only the launch knows."""
    threads: int | None = None
    """Per block; None where only the launch knows."""
    tensor_cores: tuple[str, ...] | None = None
    """The matrix instructions in its code and their operands, as in `core.DeviceKernel`; None where it was not read."""
    binary: Callable[[], bytes] | None = field(default=None, repr=False, compare=False)
    """Returns its cubin or fatbin, for an NVIDIA GPU; None where it is not known."""


Launched = Callable[[RecordedLaunch], None]
Counted = Callable[[str, Callable[..., Any]], Callable[..., Any]]
"""Takes a kernel's name and what launches it; returns what launches and counts it."""
Around = Callable[[], contextlib.AbstractContextManager[None]]


class LanguageSupport:
    """One language, for workers and for the evaluator; a method that is not overridden does nothing.

    Its module imports neither the language nor torch: methods do. They are called in workers that have imported the
    language.
    """

    helpers: tuple[str, ...] = ()
    """Files in the language's cache, as patterns, that depend on no kernel's code, such as what launches it. They are
    compiled once, in a trusted worker, and copied to the others."""
    environment: Mapping[str, str] = {}
    """Variables of workers and their server."""
    cpu_environment: Mapping[str, str] = {}
    """More of them where the device is a CPU."""
    imports_quickly: bool = False
    """Whether a server imports it in less time than a GPU takes to open, and so does a worker whose server had not."""
    compiles_quickly: bool = False
    """Whether a kernel compiles in less time than a server of compilers takes to start."""
    compiler_paths: tuple[str, ...] = ()
    """Parts of the names of the compiler's files: an exception that passes there is its verdict."""
    pinned_modules: tuple[str, ...] = ()
    """Modules in which a candidate may change nothing: what counting launches rests on."""
    pinned_classes: tuple[tuple[str, str], ...] = ()
    """Classes, as (module, name), in which it may change nothing."""

    records: tuple[Target, ...] = ()
    """Targets whose launches `recording` reports; on others the candidate is timed in its own process."""
    interpreter_remarks: Mapping[str, str] = {}
    """Remark for an evaluation's environment if an interpreter replaces the target: how its results may differ."""

    def preload(self) -> None:
        """In the process that a GPU's workers are forked from: do what each would do again. It may not open the GPU."""

    def build_helpers(self, signatures: Iterable[Sequence[str]] = ()) -> None:
        """On a GPU: compile `helpers` into the language's cache, or load them from there.

        `signatures` are types of parameters of kernels that will be launched, as `KernelCode.parameters` or
        `RecordedLaunch.signature`. They come from a candidate, and what is compiled is code of a trusted worker:
        types that are not plain are left out.
        """

    def prepare(self, device: str) -> None:
        """Make the language usable in a worker on this device, before a candidate's code is loaded."""

    def capture_launches(self, launched: Launched, device: str) -> None:
        """From now on, in this process, launching a kernel compiles it and reports it to `launched`; nothing runs.

        Tensors are fake. Raise `UntraceableCallError` for what only a real call can show. Without this, kernels of the
        language cannot be compiled ahead of measuring.
        """

    def pretend(self, properties: Mapping[str, Any]) -> None:
        """Make the language believe in a GPU with these properties (`gpu_properties.PROPERTIES`)."""

    def takes_addresses(self, caller: Mapping[str, Any]) -> bool:
        """Whether the module with these globals may ask a fake tensor for its address, to specialise on alignment."""
        return False

    def counting(self, counted: Counted) -> contextlib.AbstractContextManager[None]:
        """While inside, every launch goes through `counted(name, launch)`; the name is that of its function.

        Without this a candidate is taken to launch nothing of its own, and is rejected.
        """
        return contextlib.nullcontext()

    def recording(self, recorded: LaunchRecorder) -> contextlib.AbstractContextManager[None]:
        """While inside, every launch is reported to `recorded` after it was made, from the thread that made it."""
        return contextlib.nullcontext()

    def interpreting(self, around: Around) -> contextlib.AbstractContextManager[None]:
        """While inside, each launch that an interpreter runs is inside `around()`."""
        return contextlib.nullcontext()

    def compiled_kernels(self) -> Iterable[CompiledKernel]:
        """Return the kernels that this process has compiled for a GPU so far."""
        return ()

    def source_name(self, kernel_name: str) -> str:
        """The name in the source of what the profiler calls `kernel_name`."""
        return kernel_name


def support_of(language: Language) -> LanguageSupport:
    """Return the support of one language; raises `OptionError` for a plug-in without it."""
    name = language_module(language)
    support = getattr(importlib.import_module(name), "SUPPORT", None)
    if not isinstance(support, LanguageSupport):
        raise OptionError(f"the language {language.id} has no SUPPORT in {name}; see `kernelwright docs languages`")
    return support


def language_module(language: Language) -> str:
    """The module with a language's `SUPPORT`."""
    return language.support or f"{__package__}.{language.id}"


def supports() -> tuple[LanguageSupport, ...]:
    """Return the supports of all known languages."""
    return tuple(map(support_of, known_languages()))


def imported_supports() -> tuple[LanguageSupport, ...]:
    """Return the supports of the languages that this process has imported; importing another takes seconds."""
    return tuple(support_of(language) for language in known_languages() if language.modules[0] in sys.modules)


@contextlib.contextmanager
def replaced(owner: type | ModuleType, name: str, replacement: Callable[[Any], Any]) -> Iterator[None]:
    """While inside, an attribute of a class or a module is what `replacement` makes of it."""
    really = vars(owner)[name]
    setattr(owner, name, replacement(really))
    try:
        yield
    finally:
        setattr(owner, name, really)
