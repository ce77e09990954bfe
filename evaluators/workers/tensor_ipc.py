"""Passes a candidate's outputs to the reference worker, through a file, or on a GPU by sharing the memory; and weights
the other way.

Sharing saves two copies over the bus. The reference worker only reads what it gets; a handle that cannot be opened
is the candidate's failure.
"""

from __future__ import annotations

import base64
import contextlib
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import BaseModel, ConfigDict

from ..sandbox.untrusted_files import read_untrusted_file
from .channel import Message
from .memory import is_large

_BYTES = (1, 4, 6)
"""The bytes fields of torch's CUDA handle: memory, reference count, event."""
_COUNTER = re.compile(rb"/torch_\d+_\d+_\d+")
"""The file of the reference count, which is opened under the given name."""
ALIGNMENT = 256
"""Bytes, of each tensor in a buffer with several."""
MOST_OPEN = 4
"""Memory of other processes that stays open."""


class OutputTensor(BaseModel):
    """One output; all fields but the type are as here for other objects than tensors."""

    model_config = ConfigDict(extra="forbid")

    type: str
    shape: list[int] | None
    strides: list[int] = []
    dtype: str | None = None
    device: str | None = None
    stored: bool = False
    handle: list[int | str | bool] | None = None
    """Handle of the device memory, if the tensor is shared and not written to a file."""
    offset: int = 0


class UnreadableTensorError(Exception):
    """The outputs are missing or incomplete."""


def describe(output: Any) -> Message:
    """Return type, shape, strides, dtype, device, and whether each element has memory; shape is None unless plain."""
    import torch

    if type(output) not in (torch.Tensor, torch.nn.Parameter):
        return {"type": type(output).__name__, "shape": None}
    if vars(output):  # an attribute may replace a method
        return {"type": "a tensor with attributes of its own", "shape": None}
    return {
        "type": type(output).__name__,
        "shape": list(output.shape),
        "strides": list(output.stride()) if output.layout == torch.strided else [],
        "dtype": str(output.dtype).removeprefix("torch."),
        "device": output.device.type,
        "stored": _is_stored(output),
    }


def _is_stored(output: Any) -> bool:
    """Return whether no two elements share memory (as in an expanded tensor), and all of it exists."""
    import torch

    if output.layout != torch.strided or output.is_conj() or output.is_neg():
        return False
    needed = 1
    for extent, stride in sorted(zip(output.shape, output.stride(), strict=True), key=lambda pair: pair[1]):
        if extent > 1 and stride < needed:
            return False
        needed = max(needed, extent * stride)
    return bool(output.untyped_storage().nbytes() >= output.numel() * output.element_size())


def publish_outputs(outputs: Sequence[Any], path: Path, shared: bool) -> tuple[list[Message], list[Any]]:
    """Return the outputs' descriptions, and the tensors to keep alive until the reference worker has read them.

    Where memory cannot be shared (not every system has what CUDA needs for it), outputs go through the file.
    """
    if shared:
        with contextlib.suppress(RuntimeError):
            return share(outputs)
    return write(outputs, path), []


def write(outputs: Sequence[Any], path: Path) -> list[Message]:
    """Write the tensors one after the other as raw bytes; return their descriptions."""
    import torch

    described = [describe(output) for output in outputs]
    with rewritten(path) as file:
        for output, description in zip(outputs, described, strict=True):
            if description.get("stored"):
                output.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tofile(file)
    return described


@contextlib.contextmanager
def rewritten(path: Path) -> Iterator[BinaryIO]:
    """Open a file to write all of it anew, over what it has: to free that memory and take other takes the system 20
    times as long as to copy the bytes."""
    with open(path, "wb", opener=lambda name, flags: os.open(name, flags & ~os.O_TRUNC, 0o666)) as file:
        yield file
        file.truncate()


def share(outputs: Sequence[Any]) -> tuple[list[Message], list[Any]]:
    """Share CUDA tensors by handle; return descriptions, and the tensors to keep alive until they are read."""
    described, kept = [describe(output) for output in outputs], []
    for output, description in zip(outputs, described, strict=True):
        if description["shape"] is None:
            continue
        tensor = output.detach().contiguous()
        kept.append(tensor)
        description["handle"] = handle_of(tensor)
        description["offset"] = tensor.storage_offset()
    return described, kept


def handle_of(tensor: Any) -> list[Any]:
    """Return torch's CUDA handle of a tensor's memory, as JSON."""
    handle = list(tensor.untyped_storage()._share_cuda_())
    for part in _BYTES:
        handle[part] = base64.b64encode(handle[part]).decode()
    return handle


class OpenMemory:
    """Memory of another process that was opened by its handle, and stays open: opening and closing take milliseconds.

    Only the last `MOST_OPEN` are kept, since what is open is not freed when its process ends.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[Any, ...], Any] = {}

    def storage_of(self, handle: Sequence[Any], number: int) -> Any:
        """Return the memory of a handle on the GPU of this number; raises what torch raises, or `ValueError`."""
        key = tuple(handle)
        storage = self._open.pop(key, None)
        self._open[key] = storage_of(handle, number) if storage is None else storage
        for oldest in [*self._open][:-MOST_OPEN]:
            del self._open[oldest]
        return self._open[key]

    @property
    def bytes(self) -> int:
        """Memory that is open."""
        return sum(storage.nbytes() for storage in self._open.values())

    def close(self) -> None:
        """Close all."""
        self._open.clear()


class OutputBuffer:
    """Passes outputs to the reference worker through one buffer of device memory, which is shared once."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._buffer: Any = None
        self._handle: list[Any] = []
        self._kept: list[Any] = []

    def publish(self, outputs: Sequence[Any], path: Path, shared: bool) -> list[Message]:
        """Return the outputs' descriptions; large ones are shared where they are, and others through the file."""
        import torch

        self._kept = []
        if not shared or not outputs or is_large(outputs):
            described, self._kept = publish_outputs(outputs, path, shared)
            return described
        described = [describe(output) for output in outputs]
        stored = [output for output, like in zip(outputs, described, strict=True) if like.get("stored")]
        size = sum(aligned(item.numel() * item.element_size()) for item in stored)
        if self._buffer is None or self._buffer.numel() < size:
            self._buffer = torch.empty(max(ALIGNMENT, size), dtype=torch.uint8, device=self._device)
            try:
                self._handle = handle_of(self._buffer)
            except RuntimeError:  # memory that cannot be shared here
                return write(outputs, path)
        at = 0
        for output, description in zip(outputs, described, strict=True):
            if description.get("stored"):
                entry = {"dtype": description["dtype"], "shape": description["shape"], "offset": at}
                _entry(self._buffer, entry).copy_(output)
                first = self._buffer.storage_offset() + at
                description |= {"handle": self._handle, "offset": first // output.element_size()}
                at += aligned(output.numel() * output.element_size())
        torch.cuda.synchronize()  # the other process reads on a stream of its own
        return described


class Outputs:
    """A candidate's outputs, read one tensor after the other."""

    def __init__(self, path: Path, opened: OpenMemory | None = None) -> None:
        self._path = path
        self._offset = 0
        self._opened = opened or OpenMemory()

    def next(self, description: Message, wanted: Any) -> Any:
        """Return the described output as a tensor like `wanted`. Raises `UnreadableTensorError`."""
        import torch

        if description.get("handle"):
            return _open(description, wanted, self._opened)
        size = wanted.numel() * wanted.element_size()
        try:
            data = read_untrusted_file(self._path, size, self._offset)
        except OSError as error:
            raise UnreadableTensorError(f"the outputs were not written whole: {error.strerror}") from None
        self._offset += size
        raw = torch.frombuffer(data, dtype=torch.uint8) if size else torch.empty(0, dtype=torch.uint8)
        return raw.view(wanted.dtype).reshape(wanted.shape).to(wanted.device)


def _open(description: Message, wanted: Any, opened: OpenMemory) -> Any:
    import torch

    tensor = torch.empty(0, dtype=wanted.dtype, device=wanted.device)
    strides = torch.empty(wanted.shape, device="meta").stride()
    try:
        storage = opened.storage_of(description["handle"], wanted.device.index or 0)
        return tensor.set_(storage, description["offset"], wanted.shape, strides)
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        raise UnreadableTensorError(f"the outputs' memory could not be opened: {error}") from None


def storage_of(handle: Sequence[Any], number: int) -> Any:
    """Return the memory of a handle on the GPU of this number; raises what torch raises, or `ValueError`."""
    import torch

    handle = list(handle)
    for part in _BYTES:
        handle[part] = base64.b64decode(handle[part])
    if not _COUNTER.fullmatch(handle[4]):
        raise ValueError("a name that is not torch's")
    handle[0] = number
    return torch.UntypedStorage._new_shared_cuda(*handle)


class StateBuffer:
    """Passes a model's weights to another process through device memory.

    The weights are copied into one buffer, in a pool of its own: the other process is untrusted, and a handle opens
    all of the allocation that a tensor lies in.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._pool: Any = None
        self._buffer: Any = None
        self._shared: list[Any] = []

    def publish(self, state: Mapping[str, Any]) -> Message:
        """Copy the weights into the buffer and return its description. Raises `RuntimeError` without shared memory."""
        import torch

        entries, size = [], 0
        for name, tensor in state.items():
            if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
                raise RuntimeError("a state that is not made of plain tensors")
            dtype = str(tensor.dtype).removeprefix("torch.")
            entries.append({"name": name, "dtype": dtype, "shape": list(tensor.shape), "offset": size})
            size += aligned(tensor.numel() * tensor.element_size())
        self._fit(max(size, ALIGNMENT))
        for entry, tensor in zip(entries, state.values(), strict=True):
            _entry(self._buffer, entry).copy_(tensor)
        torch.cuda.synchronize()  # the other process reads on a stream of its own
        return {"handle": self._shared, "bytes": self._buffer.numel(), "entries": entries}

    def _fit(self, size: int) -> None:
        import torch

        if self._buffer is None or self._buffer.numel() < size:
            self._buffer = None
            self._pool = torch.cuda.MemPool()
            with torch.cuda.use_mem_pool(self._pool):
                self._buffer = torch.empty(size, dtype=torch.uint8, device=self._device)
            self._shared = handle_of(self._buffer)  # once: torch adds to the memory's owner whenever it is shared


def aligned(size: int) -> int:
    """Return the bytes that a tensor of this size takes in a buffer with several tensors."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def open_state(description: Message, device: str) -> dict[str, Any]:
    """Return the weights of a `StateBuffer`: views, to be copied before the next request.

    Raises `UnreadableTensorError`.
    """
    import torch

    buffer = torch.empty(0, dtype=torch.uint8, device=device)
    try:
        storage = storage_of(description["handle"], buffer.device.index or 0)
        buffer.set_(storage, 0, (description["bytes"],), (1,))
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        raise UnreadableTensorError(f"the weights' memory could not be opened: {error}") from None
    return {entry["name"]: _entry(buffer, entry) for entry in description["entries"]}


def _entry(buffer: Any, entry: Message) -> Any:
    """Return the part of the buffer that holds a tensor, as a tensor of its dtype and shape."""
    import torch

    dtype, shape = getattr(torch, entry["dtype"]), entry["shape"]
    size = math.prod(shape) * dtype.itemsize
    return buffer[entry["offset"] : entry["offset"] + size].view(dtype).view(shape)
