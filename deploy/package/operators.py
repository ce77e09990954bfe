"""Registers the operator of table.json with torch: kernels by size, the reference otherwise, and its gradient."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from .dispatch import MOST, Dispatch, TableRow, is_strided, key_of
from .modules import META, BoundModule, PackageModules
from .plan import CallPlan, CallRecorder

_PLAIN = (torch.Tensor, torch.nn.Parameter)


@dataclass(slots=True)
class _Ready:
    """Prepared state for calls of one key in one thread."""

    kernel: BoundModule
    repeatable: bool
    """Whether the next call is to be recorded."""
    plan: CallPlan | None = None
    device: int | None = None
    """The GPU that must be the current one; None if there is only one."""


class DeployedOperator:
    """An operator of inputs and weights. All outputs are contiguous, new tensors; no argument is written to."""

    def __init__(self, package: str, folder: Path) -> None:
        table = json.loads((folder / "table.json").read_text())
        self.package = package
        self.name: str = table["name"]
        self.table = table
        self.weights: list[str] = table["weights"]
        """The weights' names in the reference; they are the operator's last arguments."""
        # Triton's interpreter runs kernels for GPUs on the CPU, and nothing of it can be traced.
        interpreted = os.environ.get("TRITON_INTERPRET", "0") not in ("", "0")
        rows = [TableRow.of(item) for item in table["kernels"]]
        self.dispatch = Dispatch(self.name, [replace(row, device="cpu") for row in rows] if interpreted else rows)
        self._deterministic = all(row.deterministic for row in rows)
        self.modules = PackageModules(package, folder, self.weights)
        self._folder = folder
        self.schema: Any = None
        """The operator's schema, once it is registered."""
        self.operator: Any = None
        """The operator, once it is registered."""
        self.gradients: DeployedOperator | None = None
        """The operator of the gradients, of inputs, the outputs' gradients and weights; None without one."""
        self._ready = threading.local()
        self._tuple: bool = table["returns_tuple"]
        self._own_tensors: bool = table["reference_has_own_tensors"]
        # Inductor sees through operators of Triton kernels all of whose tensors are arguments.
        self.visible: bool = table["visible"] and not interpreted

    def register(self, function: Callable[..., Any]) -> Any:
        """Register the function that computes the operator, with the operator's signature; return the operator."""
        if not hasattr(torch.library, "triton_op"):
            raise ImportError(
                f"{self.package} needs torch 2.6 or newer: torch {torch.__version__} has no torch.library.triton_op"
            )
        namespace, _, name = self.name.partition("::")
        if hasattr(getattr(torch.ops, namespace), name):
            raise ImportError(
                f"{self.package}: an operator {self.name} is registered already; deploy under another name"
            )
        register = torch.library.triton_op if self.visible else torch.library.custom_op
        operator = register(self.name, function, mutates_args=())
        self.schema = operator._opoverload._schema
        self._mark_compiled()
        operator.register_fake(self.fake)
        operator.register_autograd(self._backward, setup_context=self._save)
        if self.visible:  # a traced call must find its modules made
            for row in self.dispatch.rows:
                self.modules.kernel(row.kernel, row.sizes, META)
        if not self._own_tensors:
            for row in self.dispatch.rows:
                self.modules.reference(row.sizes, META)
        self.operator = operator
        return operator

    def _mark_compiled(self) -> None:
        """Let torch.compile's caches on disk, which know an operator by its name, tell this package from others."""
        if hasattr(torch.compiler.config, "cache_key_tag"):  # absent in old torch
            files = [*sorted(self._folder.rglob("*.py")), self._folder / "table.json"]
            digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
            torch.compiler.config.cache_key_tag += f"{self.name}={digest};"

    def __call__(self, *arguments: Any) -> Any:
        """Compute the operator, without autocast: kernels were measured so. What a call with these sizes needs is found
        once for each thread.
        """
        if torch._C._is_any_autocast_enabled():
            with torch._C._DisableAutocast():
                return self(*arguments)
        if not self._deterministic and torch.are_deterministic_algorithms_enabled():
            self.dispatch.count("settings", arguments)
            return self.by_reference([item.detach() if isinstance(item, torch.Tensor) else item for item in arguments])
        key = key_of(arguments)
        ready: dict[Any, _Ready] = self._ready.__dict__
        found = ready.get(key)
        if found is not None and found.plan is not None:
            if found.device is None or found.device == torch.cuda.current_device():
                return found.plan(arguments)
            with torch.cuda.device(found.device):
                return found.plan(arguments)
        # Kernels of some languages refuse tensors that require gradients, which are none of their business.
        given = [item.detach() if getattr(item, "requires_grad", False) else item for item in arguments]
        inputs, weights = self._split(given)
        if found is None:
            row = self.dispatch.row(arguments, key)
            if row is None:
                return self.by_reference(given)
            device = META if self.visible else _device_of(given)
            found = _Ready(self.modules.kernel(row.kernel, row.sizes, device), row.repeatable)
            if key is not None:
                if len(ready) >= MOST:
                    ready.clear()
                ready[key] = found
        elif found.repeatable:
            found.repeatable = False
            with _current(_device_of(given)):
                return self._recorded(found, given)
        with contextlib.nullcontext() if key is None else _current(_device_of(given)):
            return self._own(found.kernel(inputs, weights), given)

    def _recorded(self, found: _Ready, given: list[Any]) -> Any:
        """Compute the second call of a key, for which nothing is compiled, and keep its plan for those that follow."""
        for place, item in enumerate(given):  # each tensor of a plan has one origin
            others = [other for other in given[:place] if isinstance(other, torch.Tensor)]
            if isinstance(item, torch.Tensor) and any(torch._C._is_alias_of(item, other) for other in others):
                given[place] = item.clone()
        recorder = CallRecorder(given)
        with recorder.recording():
            result = found.kernel(*self._split(given))
        outputs = list(result) if isinstance(result, tuple | list) else [result]
        device = _device_of(given)
        found.device = device.index if device.type == "cuda" and torch.cuda.device_count() > 1 else None
        found.plan = recorder.plan(outputs, self._tuple)
        return self._own(result, given)

    def by_reference(self, arguments: Sequence[Any]) -> Any:
        """Compute the operator in plain torch."""
        return self._own(self._reference(arguments)(*self._split(arguments)), arguments)

    def _split(self, arguments: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        count = len(arguments) - len(self.weights)
        return arguments[:count], arguments[count:]

    def _reference(self, arguments: Sequence[Any]) -> BoundModule:
        """Return the reference, made as for the row whose weights have these sizes."""
        rows = self.dispatch.rows
        row = next((row for row in rows if _same_weights(row, arguments, len(self.weights))), rows[0])
        if not self._own_tensors:
            return self.modules.reference(row.sizes, META)
        if type(next(item for item in arguments if isinstance(item, torch.Tensor))) in _PLAIN:
            return self.modules.reference(row.sizes, _device_of(arguments))
        return BoundModule(self.modules.model(row.sizes, _device_of(arguments)), self.weights)  # of fake tensors

    def _own(self, result: Any, arguments: Sequence[Any]) -> Any:
        """Return the outputs as new contiguous tensors, as the operator declares them."""
        outputs = list(result) if isinstance(result, tuple | list) else [result]
        given = [item for item in arguments if isinstance(item, torch.Tensor) and is_strided(item)]
        for place, output in enumerate(outputs):
            if not is_strided(output):  # of sparse arguments
                continue
            output = output.contiguous()
            if any(torch._C._is_alias_of(output, other) for other in (*given, *filter(is_strided, outputs[:place]))):
                output = output.clone()
            outputs[place] = output
        return tuple(outputs) if self._tuple else outputs[0]

    def fake(self, *arguments: Any) -> Any:
        """Return empty tensors of the sizes, dtypes and strides that the outputs have."""
        inputs, weights = self._split(arguments)
        with torch._C._DisableAutocast():
            result = self._reference(arguments)(inputs, weights)
        outputs = [
            torch.empty(item.shape, dtype=item.dtype, device=item.device)
            for item in (result if isinstance(result, tuple | list) else [result])
        ]
        return tuple(outputs) if self._tuple else outputs[0]

    def _save(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*(item for item in inputs if isinstance(item, torch.Tensor)))
        ctx.others = [None if isinstance(item, torch.Tensor) else (item,) for item in inputs]

    def _backward(self, ctx: Any, *gradients: Any) -> Any:
        """Return the gradients: by a kernel if one serves and they need not be differentiated, otherwise the
        reference's own. The reference's forward pass is recomputed.
        """
        if self.gradients is not None and not torch.is_grad_enabled():
            found = self._gradients_by_kernel(self.gradients, ctx, gradients)
            if found is not None:
                return found
        saved, create = iter(ctx.saved_tensors), torch.is_grad_enabled()  # it is for second derivatives
        arguments = []
        for other, needed in zip(ctx.others, ctx.needs_input_grad, strict=True):
            if other is not None:
                arguments.append(other[0])
                continue
            value = next(saved)
            arguments.append(value.view_as(value) if create and needed else value.detach().requires_grad_(needed))
        wanted = [place for place, needed in enumerate(ctx.needs_input_grad) if needed]
        with torch.enable_grad(), torch._C._DisableAutocast():
            result = self._reference(arguments)(*self._split(arguments))
            outputs = list(result) if isinstance(result, tuple | list) else [result]
            pairs = [
                (output, gradient)
                for output, gradient in zip(outputs, gradients, strict=True)
                if output.requires_grad and gradient is not None
            ]
            found = torch.autograd.grad(
                [output for output, _ in pairs],
                [arguments[place] for place in wanted],
                [gradient for _, gradient in pairs],
                allow_unused=True,
                create_graph=create,
            )
        given = dict(zip(wanted, found, strict=True))
        return tuple(given.get(place) for place in range(len(arguments)))

    def _gradients_by_kernel(self, operator: DeployedOperator, ctx: Any, gradients: Sequence[Any]) -> Any:
        saved = iter(ctx.saved_tensors)
        arguments = [next(saved) if other is None else other[0] for other in ctx.others]
        inputs, weights = self._split(arguments)
        if any(item is None for item in gradients):
            return None
        given = [*inputs, *(item.contiguous() for item in gradients), *weights]
        if all(row.mismatch(given) for row in operator.dispatch.rows):
            return None
        places = [place for place, item in enumerate(inputs) if item.is_floating_point()]
        count = len(operator.schema.returns) - len(places)
        places += range(len(inputs), len(inputs) + count)  # parameters come before buffers, whose gradients it lacks
        wanted = [place for place, needed in enumerate(ctx.needs_input_grad) if needed]
        if not {*wanted} <= {*places}:
            return None
        by_place = dict(zip(places, operator.operator(*given), strict=True))
        return tuple(by_place[place] if place in wanted else None for place in range(len(arguments)))


def _device_of(arguments: Sequence[Any]) -> torch.device:
    device: torch.device = next(item.device for item in arguments if isinstance(item, torch.Tensor))
    return device


def _same_weights(row: TableRow, arguments: Sequence[Any], count: int) -> bool:
    pairs = list(zip(row.arguments, arguments, strict=True))[len(arguments) - count :]
    return all(list(wanted[1]) == list(actual.shape) for wanted, actual in pairs)


def _current(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Return a context in which a GPU is the current one."""
    if device.type != "cuda" or device.index in (None, torch.cuda.current_device()):
        return contextlib.nullcontext()
    current: contextlib.AbstractContextManager[Any] = torch.cuda.device(device)
    return current
