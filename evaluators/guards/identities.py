"""Detects replaced functions among those that checking and timing depend on.

Compared are identities: of a module in `sys.modules`, of the value of a name in it or in a class, and of a Python
function's code and defaults, which can be exchanged under the same function. Added names do not count, since
libraries add them at first use.
"""

from __future__ import annotations

import itertools
import operator
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
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
_HOLDERS = (classmethod, staticmethod)
_MISSING = object()
_NEVER = itertools.repeat(_MISSING)

_all, _map, _is, _mro = all, map, operator.is_, type.mro
_CODE = operator.attrgetter("__code__")
_DEFAULTS = operator.attrgetter("__defaults__")
_KEYWORDS = operator.attrgetter("__kwdefaults__")
"""Bound before a candidate's code runs, which could replace them."""


class _Pins:
    """Values by their keys, with the code of those that are functions.

    Everything is compared after each step, some ten thousand names: by loops in C, and one by one only for a message.
    """

    __slots__ = ("_codes", "_defaults", "_functions", "_keywords", "_label", "_pinned", "keys", "values")

    def __init__(self, label: str, pinned: dict[str, Any]) -> None:
        self._label = label
        self._pinned = pinned
        self.keys, self.values = tuple(pinned), tuple(pinned.values())
        self._functions = tuple(item for item in map(_function, self.values) if isinstance(item, FunctionType))
        self._codes = tuple(map(_CODE, self._functions))
        self._defaults = tuple(map(_DEFAULTS, self._functions))
        self._keywords = tuple(map(_KEYWORDS, self._functions))

    def of(self, key: str) -> Any:
        """Return what a name stood for."""
        return self._pinned[key]

    def changed(self, namespace: Mapping[str, Any]) -> Iterator[str]:
        """Yield the names, with the label before them, that have another value now, or another code."""
        if not (
            _all(_map(_is, _map(namespace.get, self.keys, _NEVER), self.values))
            and _all(_map(_is, _map(_CODE, self._functions), self._codes))
            and _all(_map(_is, _map(_DEFAULTS, self._functions), self._defaults))
            and _all(_map(_is, _map(_KEYWORDS, self._functions), self._keywords))
        ):
            codes = zip(self._codes, self._defaults, self._keywords, strict=True)
            known = dict(zip(map(id, self._functions), codes, strict=True))
            for key, value in self._pinned.items():
                function = _function(value)
                code = known.get(id(function))
                if namespace.get(key, _MISSING) is not value or (code is not None and _changed(function, code)):
                    yield f"{self._label}.{key}"


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
        whole = frozenset(ours)
        self._namespaces = tuple((vars(module), _pins(module, name, name in whole)) for name, module in modules.items())
        classes = [*CLASSES, *(pinned_class_ for support in languages for pinned_class_ in support.pinned_classes)]
        self._classes = tuple((kind, _methods(kind, label)) for label, kind in _classes(classes, modules, ours))
        self._objects = tuple((item, frozenset(dir(type(item))) & frozenset(vars(item))) for item in objects)

    def put_back(self, kept: Collection[str]) -> None:
        """Put back the values of names that were replaced, but for those that `changed` had yielded before (`kept`)."""
        holders: list[tuple[Callable[[str, Any], object], _Pins, Mapping[str, Any]]]
        holders = [(namespace.__setitem__, pins, namespace) for namespace, pins in self._namespaces]
        holders += [(partial(setattr, kind), pins, _found_in(kind)) for kind, pins in self._classes]
        for put, pins, namespace in holders:
            for label in list(pins.changed(namespace)):
                if label not in kept:
                    key = label.rpartition(".")[2]
                    put(key, pins.of(key))

    def follow(self, module: ModuleType) -> None:
        """Watch everything in a module from now on, instead of an older module of the same name."""
        name = module.__name__
        self._modules = (*(pair for pair in self._modules if pair[0] != name), (name, module))
        kept = tuple(group for group in self._namespaces if group[0].get("__name__") != name)
        self._namespaces = (*kept, (vars(module), _pins(module, name, True)))

    def changed(self) -> Iterator[str]:
        """Yield names, such as 'torch.cuda.synchronize', whose value was replaced."""
        loaded = sys.modules
        for name, module in self._modules:
            if loaded.get(name) is not module:
                yield f"sys.modules[{name!r}]"
        for namespace, pins in self._namespaces:
            yield from pins.changed(namespace)
        for kind, pins in self._classes:
            yield from pins.changed(_found_in(kind))
        for obj, known in self._objects:
            for name in (frozenset(dir(type(obj))) & frozenset(vars(obj))) - known:
                yield f"{type(obj).__name__}.{name}"


def _pins(module: ModuleType, name: str, whole: bool) -> _Pins:
    """Pin the functions and classes of a module; of a `whole` one everything in it."""
    kinds = _ROUTINES if name == "sys" else (*_ROUTINES, type)  # sys.last_type is the class of an exception
    pinned = {
        key: value
        for key, value in vars(module).copy().items()
        if (isinstance(value, kinds) or (whole and not key.startswith("__"))) and not isinstance(value, ModuleType)
    }
    # Importing Dynamo, which entering a dispatch mode does, replaces this one function.
    if name == "torch" and "torch._dynamo" not in sys.modules:
        pinned.pop("manual_seed", None)
    return _Pins(name, pinned)


def _classes(
    named: Sequence[tuple[str, str]], modules: dict[str, ModuleType], ours: Sequence[str]
) -> Iterator[tuple[str, type]]:
    for name, attribute in named:
        found = getattr(sys.modules.get(name), attribute, None)
        if isinstance(found, type):
            yield f"{name}.{attribute}", found
    for name in ours:
        for key, value in list(vars(modules[name]).items()):
            if isinstance(value, type) and value.__module__ == name:
                yield f"{name}.{key}", value


def _methods(kind: type, label: str) -> _Pins:
    """Pin what an instance finds in its class and base classes; values that are not functions may change."""
    found = _found_in(kind).items()
    return _Pins(label, {key: value for key, value in found if callable(value) or hasattr(type(value), "__get__")})


def _found_in(kind: type) -> Mapping[str, Any]:
    """Return what an instance finds in its class and base classes, but for `object`."""
    *others, last = [base for base in _mro(kind) if base is not object][::-1]
    if not others:
        return vars(last)
    found = vars(others[0]).copy()
    for base in (*others[1:], last):
        found |= vars(base).copy()
    return found


def _function(value: Any) -> Any:
    """Return the function inside a classmethod, staticmethod or property."""
    if isinstance(value, _HOLDERS):
        return value.__func__
    return value.fget if isinstance(value, property) else value


def _changed(function: Any, code: tuple[Any, Any, Any]) -> bool:
    return (
        function.__code__ is not code[0]
        or function.__defaults__ is not code[1]
        or function.__kwdefaults__ is not code[2]
    )
