"""The reference's and the kernels' modules, called with their weights as arguments."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

META = "meta"
"""The device of modules all of whose tensors are arguments."""
_LOADING = threading.RLock()


class BoundModule:
    """A module whose parameters and buffers are arguments of its calls, for one thread."""

    def __init__(self, module: torch.nn.Module, weights: Sequence[str]) -> None:
        self._forward = module.forward
        self._places = [_places(module, name) for name in weights]

    def __call__(self, inputs: Sequence[Any], weights: Sequence[torch.Tensor]) -> Any:
        """Return what the module returns for these inputs, with these weights."""
        before = [(owner, key, owner[key]) for places in self._places for owner, key in places]
        try:
            for places, weight in zip(self._places, weights, strict=True):
                for owner, key in places:
                    owner[key] = weight
            return self._forward(*inputs)
        finally:
            for owner, key, kept in before:
                owner[key] = kept


class PackageModules:
    """Makes the modules of a package when they are first called, for each thread and device."""

    def __init__(self, package: str, folder: Path, weights: Sequence[str]) -> None:
        self._package = package
        self._folder = folder
        self._weights = weights
        self._made = threading.local()

    def reference(self, sizes: Mapping[str, Any], device: Any) -> BoundModule:
        """Return the reference's Model, made for these sizes."""
        return self._kept(("reference", repr(sizes), str(device)), lambda: self.model(sizes, device))

    def kernel(self, name: str, sizes: Mapping[str, Any], device: Any) -> BoundModule:
        """Return a kernel's ModelNew, made as the reference is for these sizes."""

        def make() -> torch.nn.Module:
            module = importlib.import_module(f"{self._package}.kernels.{name}")
            made: torch.nn.Module = module.ModelNew(*self.problem(sizes).get_init_inputs())
            return made if str(device) == META else made.to(device)

        return self._kept((name, repr(sizes), str(device)), lambda: _made(make, device))

    def model(self, sizes: Mapping[str, Any], device: Any) -> torch.nn.Module:
        """Return a new Model of the reference with weights of its own."""
        problem = self.problem(sizes)

        def make() -> torch.nn.Module:
            made: torch.nn.Module = problem.Model(*problem.get_init_inputs())
            return made if str(device) == META else made.to(device)

        return _made(make, device)

    def problem(self, sizes: Mapping[str, Any]) -> ModuleType:
        """Return the reference's file as a module with these constants set, one for each set of sizes."""
        name = f"{self._package}.reference_at_{zlib.crc32(repr(sorted(sizes.items())).encode()):08x}"
        with _LOADING:
            if name not in sys.modules:  # torch.compile looks for it there too
                sys.modules[name] = _loaded(name, self._folder / "reference.py", sizes)
            return sys.modules[name]

    def _kept(self, key: tuple[str, ...], make: Callable[[], torch.nn.Module]) -> BoundModule:
        known: dict[tuple[str, ...], BoundModule] | None = getattr(self._made, "modules", None)
        if known is None:
            known = self._made.modules = {}
        if key not in known:
            known[key] = BoundModule(make(), self._weights)
        return known[key]


def _loaded(name: str, path: Path, sizes: Mapping[str, Any]) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for size, value in sizes.items():
        # JSON has no tuples: a size that is a list was a tuple.
        setattr(module, size, tuple(value) if isinstance(value, list) else value)
    return module


def _made(make: Callable[[], torch.nn.Module], device: Any) -> torch.nn.Module:
    """Return the new module, ready for training, without changing later random numbers."""
    gpus = [torch.device(device)] if torch.device(device).type == "cuda" else []
    with torch.inference_mode(False), torch.random.fork_rng(devices=gpus), torch.device(device):
        made: torch.nn.Module = make()
    return made


class OperatorModule(torch.nn.Module):  # type: ignore[misc]
    """The reference's module, with its parameters and its state, computed by an operator."""

    def __init__(self, model: torch.nn.Module, operator: Any, weights: Sequence[str]) -> None:
        super().__init__()
        for name, child in model.named_children():
            self.add_module(name, child)
        for name, parameter in model.named_parameters(recurse=False):
            self.register_parameter(name, parameter)
        for name, buffer in model.named_buffers(recurse=False):
            self.register_buffer(name, buffer, persistent=name not in model._non_persistent_buffers_set)
        self._operator = operator
        self._paths = [name.split(".") for name in weights]

    def forward(self, *inputs: Any) -> Any:
        """Return what the reference's forward returns."""
        weights = []
        for path in self._paths:
            found: Any = self
            for name in path:
                found = getattr(found, name)
            weights.append(found)
        return self._operator(*inputs, *weights)


@contextlib.contextmanager
def exact_products() -> Iterator[None]:
    """Compute with fp32 products where a reference is compared."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def changed_settings() -> dict[str, Any]:
    """Return torch's settings that change the reference's results and are not the defaults.

    Kernels do not follow them. If torch must be deterministic, the reference computes operators whose kernels add in no
    fixed order.
    """
    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    found = {
        "torch.backends.cuda.matmul.allow_tf32": (products.allow_tf32, False),
        "torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction": (
            products.allow_bf16_reduced_precision_reduction,
            True,
        ),
        "torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction": (
            products.allow_fp16_reduced_precision_reduction,
            True,
        ),
        "torch.backends.cudnn.allow_tf32": (convolutions.allow_tf32, True),
        "torch.use_deterministic_algorithms": (torch.are_deterministic_algorithms_enabled(), False),
    }
    return {name: value for name, (value, usual) in found.items() if value != usual}


def _places(module: torch.nn.Module, name: str) -> list[tuple[dict[str, Any], str]]:
    path, _, key = name.rpartition(".")
    try:
        owner = module.get_submodule(path)
    except AttributeError:
        return []
    return [(kept, key) for kept in (owner._parameters, owner._buffers) if key in kept]
