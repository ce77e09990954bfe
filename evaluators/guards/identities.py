"""Detects replaced functions among those that checking and timing depend on.

Compared are identities: of a module in `sys.modules`, of the value of a name in it or in a class, and of a Python
function's code and defaults, which can be exchanged under the same function. Added names do not count, since
libraries add them at first use.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, ModuleType
from typing import Any

from ..languages.base import supports

MODULES = (
    "time", "statistics", "json", "json.decoder", "json.encoder", "socket", "struct", "builtins", "math", "os",
    "signal", "sys", "gc", "threading", "contextlib", "traceback", "importlib", "importlib.util", "tempfile", "ctypes",
    "concurrent.futures.thread",
    "torch", "torch.cuda", "torch.cuda.streams", "torch.cuda.memory", "torch.cuda.random", "torch.nn",
    "torch.nn.functional", "torch.nn.modules.module", "torch.random", "torch.autograd", "torch.autograd.profiler",
    "torch.profiler", "torch.profiler.profiler", "torch.linalg", "torch.serialization", "torch.overrides",
    "torch.utils._python_dispatch", "torch.utils.flop_counter", "torch.testing", "torch.storage",
    "numpy",
)  # fmt: skip
"""Modules that candidates have patched, and those that the workers themselves call."""

CLASSES = (
    ("torch", "Tensor"), ("torch", "UntypedStorage"), ("torch", "Generator"), ("torch", "Size"), ("torch", "no_grad"),
    ("torch.nn", "Module"), ("torch.nn", "Parameter"), ("torch.cuda", "Event"), ("torch.cuda", "Stream"),
    ("torch.profiler", "profile"), ("torch.autograd.profiler", "profile"),
    ("torch.utils._python_dispatch", "TorchDispatchMode"), ("torch.overrides", "TorchFunctionMode"),
    ("torch.nn.modules.module", "OrderedDict"), ("socket", "socket"), ("json", "JSONDecoder"), ("json", "JSONEncoder"),
    ("pathlib", "Path"), ("threading", "Thread"), ("concurrent.futures.thread", "_WorkItem"),
)  # fmt: skip
"""Classes whose methods are compared; of all other classes only the name."""

_PACKAGE = (__package__ or "").removesuffix(".guards")
_ROUTINES = (FunctionType, BuiltinFunctionType, MethodDescriptorType)
_MISSING = object()

Code = tuple[Any, Any, Any]
Pin = tuple[str, Any, Any, Code | None]
"""A name for messages, the key, the original value, and its code."""


class Identities:
    """Remembers the values of the watched names at its creation."""

    def __init__(self, objects: Sequence[object] = ()) -> None:
        languages = supports()
        pinned = [*MODULES, *(name for support in languages for name in support.pinned_modules)]
        names = [name for name in pinned if name in sys.modules]
        ours = [name for name in list(sys.modules) if name == _PACKAGE or name.startswith(f"{_PACKAGE}.")]
        ours += [name for support in languages if (name := type(support).__module__) not in ours]
        modules = {name: sys.modules[name] for name in [*names, *ours]}
        self._modules = tuple(modules.items())
        self._namespaces = tuple(
            (vars(module), tuple(_pins(module, name, name in ours))) for name, module in modules.items()
        )
        self._classes = tuple(
            (kind, tuple(_methods(kind, label)))
            for label, kind in _classes(
                [*CLASSES, *(one for support in languages for one in support.pinned_classes)], modules, set(ours)
            )
        )
        self._objects = tuple((one, frozenset(dir(type(one))) & frozenset(vars(one))) for one in objects)

    def follow(self, module: ModuleType) -> None:
        """Watch everything in a module from now on, instead of an older module of the same name."""
        name = module.__name__
        self._modules = (*(pair for pair in self._modules if pair[0] != name), (name, module))
        kept = tuple(group for group in self._namespaces if group[0].get("__name__") != name)
        self._namespaces = (*kept, (vars(module), tuple(_pins(module, name, True))))

    def changed(self) -> Iterator[str]:
        """Yield names, such as 'torch.cuda.synchronize', whose value was replaced."""
        loaded = sys.modules
        for name, module in self._modules:
            if loaded.get(name) is not module:
                yield f"sys.modules[{name!r}]"
        for namespace, pins in self._namespaces:
            for label, key, value, code in pins:
                if namespace.get(key, _MISSING) is not value or (code is not None and _changed(value, code)):
                    yield label
        for kind, pins in self._classes:
            spaces = [vars(base) for base in type.mro(kind)]
            for label, key, value, code in pins:
                found = next((space[key] for space in spaces if key in space), _MISSING)
                if found is not value or (code is not None and _changed(_function(value), code)):
                    yield label
        for one, known in self._objects:
            for name in (frozenset(dir(type(one))) & frozenset(vars(one))) - known:
                yield f"{type(one).__name__}.{name}"


def _pins(module: ModuleType, name: str, whole: bool) -> Iterator[Pin]:
    """Yield the functions and classes of a module; of a `whole` one everything in it."""
    kinds = _ROUTINES if name == "sys" else (*_ROUTINES, type)  # sys.last_type is the class of an exception
    for key, value in list(vars(module).items()):
        # Importing Dynamo, which entering a dispatch mode does, replaces this one function.
        if (name, key) == ("torch", "manual_seed") and "torch._dynamo" not in sys.modules:
            continue
        routine = isinstance(value, kinds) or (whole and not key.startswith("__"))
        if routine and not isinstance(value, ModuleType):
            yield f"{name}.{key}", key, value, _code(value)


def _classes(
    named: Sequence[tuple[str, str]], modules: dict[str, ModuleType], ours: set[str]
) -> Iterator[tuple[str, type]]:
    for name, attribute in named:
        found = getattr(sys.modules.get(name), attribute, None)
        if isinstance(found, type):
            yield f"{name}.{attribute}", found
    for name in ours:
        for key, value in list(vars(modules[name]).items()):
            if isinstance(value, type) and value.__module__ == name:
                yield f"{name}.{key}", value


def _methods(kind: type, label: str) -> Iterator[Pin]:
    """Yield what an instance finds in its class and base classes; values that are not functions may change."""
    seen: set[str] = set()
    for base in type.mro(kind):
        if base is object:
            continue
        for key, value in list(vars(base).items()):
            if key not in seen and (callable(value) or hasattr(type(value), "__get__")):
                yield f"{label}.{key}", key, value, _code(_function(value))
            seen.add(key)


def _function(value: Any) -> Any:
    """Return the function inside a classmethod, staticmethod or property."""
    if isinstance(value, classmethod | staticmethod):
        return value.__func__
    return value.fget if isinstance(value, property) else value


def _code(value: Any) -> Code | None:
    if not isinstance(value, FunctionType):
        return None
    return value.__code__, value.__defaults__, value.__kwdefaults__


def _changed(function: Any, code: Code) -> bool:
    return (
        function.__code__ is not code[0]
        or function.__defaults__ is not code[1]
        or function.__kwdefaults__ is not code[2]
    )
