"""A digest of a model's call: every operator and every kernel launch, with its arguments."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ..languages.base import UntraceableCallError
from ..workers.modules import unobserved


class OperatorTrace:
    """A sequence of operations, digested as it grows.

    Two traces are equal when the operations are, and when each works on the same storages in the same layout. Storages
    are numbered in order of appearance, so that no address matters; tensors with values, such as constants of the
    source, are distinguished by them.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._numbers: dict[int, int] = {}
        # A freed storage could pass its address on to the next one.
        self._kept: list[Any] = []

    @property
    def digest(self) -> str:
        """The digest of all operations so far."""
        return self._hash.hexdigest()

    def add(self, *operation: Any) -> None:
        """Append one operation; raises `UntraceableCallError` for an argument without a stable description."""
        self._hash.update(json.dumps(self._describe(operation)).encode())

    def _describe(self, value: Any) -> Any:
        import torch

        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return {"float": value.hex()}
        if isinstance(value, complex):
            return {"complex": str(value)}
        if isinstance(value, torch.Tensor):
            return self._describe_tensor(value)
        if isinstance(value, list | tuple):
            return [self._describe(item) for item in value]
        if isinstance(value, Mapping):
            return {"items": sorted((str(key), self._describe(item)) for key, item in value.items())}
        if isinstance(value, torch.dtype | torch.device | torch.layout | torch.memory_format):
            return {"torch": str(value)}
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            return {type(value).__qualname__: self._describe(fields)}
        raise UntraceableCallError(f"an argument of type {type(value).__qualname__}")

    def _describe_tensor(self, tensor: Any) -> Any:
        if tensor.device.type == "meta":
            # In a build of torch without CUDA, 'cuda' without an index gives this.
            raise UntraceableCallError("the current device")
        storage = tensor.untyped_storage()
        if storage._cdata not in self._numbers:
            self._numbers[storage._cdata] = len(self._kept)
            self._kept.append(storage)
        return {
            "values": _values(tensor),
            "storage": self._numbers[storage._cdata],
            "offset": tensor.storage_offset(),
            "shape": list(tensor.shape),
            "strides": list(tensor.stride()),
            "dtype": str(tensor.dtype),
            "device": tensor.device.type,
        }


def _values(tensor: Any) -> str | None:
    """Return the values of a real tensor, such as a table in the kernel's source; None for a fake one."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    if isinstance(tensor, FakeTensor):
        return None
    with unobserved():
        plain = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        return hashlib.sha256(plain.numpy().tobytes()).hexdigest()


def recording(trace: OperatorTrace) -> Any:
    """Return a context that appends every torch operator to the trace."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class OperatorRecorder(TorchDispatchMode):  # type: ignore[misc, no-any-unimported, unused-ignore]
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False  # as in `profiling.op_counter`

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            trace.add("operator", str(func), args, kwargs or {})
            result = func(*args, **(kwargs or {}))
            # Numbers the storage that the operator created: later operations may use this one or another.
            trace.add("result", result)
            return result

    return OperatorRecorder()
