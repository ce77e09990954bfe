"""Hands tensors of a trusted process to one that runs untrusted code: through device memory, or through a file.

Whole storages are handed over, so views keep their offsets and strides, and tensors that share memory still share it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..sandbox.untrusted_files import read_untrusted_into
from .channel import Message
from .memory import is_large
from .tensor_ipc import ALIGNMENT, OpenMemory, UnreadableTensorError, aligned, handle_of, rewritten
from .user_call import Layout

Memory = Callable[[Sequence[int]], Sequence[Any]]
"""Returns vectors with these numbers of bytes, each with its own storage."""


class Handover:
    """The giving side, for one device; its buffer is reused, so what was given first is gone with the second.

    On a GPU the buffer lies in a pool of its own: a handle opens all of the allocation that a tensor lies in.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._pool: Any = None
        self._buffer: Any = None
        self._handle: list[Any] = []

    def give(self, values: Sequence[Any], path: Path, share: bool) -> Message:
        """Return the description of values, of which tensors lie in shared memory, or else in the file at `path`.

        Of the `Layout` of a user's arguments its text is given. Raises `TypeError` for another value that is neither a
        plain tensor nor JSON.
        """
        import torch

        storages: dict[int, Any] = {}
        places: list[Message] = []
        for value in values:
            if not isinstance(value, torch.Tensor):
                value = value.text if isinstance(value, Layout) else value
                json.dumps(value)
                places.append({"value": value})
                continue
            if value.layout != torch.strided or value.is_conj() or value.is_neg():
                raise TypeError(f"a tensor of layout {value.layout}")
            storage = value.untyped_storage()
            storages.setdefault(storage._cdata, storage)
            places.append(
                {
                    "storage": [*storages].index(storage._cdata),
                    "dtype": str(value.dtype).removeprefix("torch."),
                    "shape": list(value.shape),
                    "strides": list(value.stride()),
                    "offset": value.storage_offset(),
                }
            )
        flat = [_bytes_of(storage) for storage in storages.values()]
        described = {"sizes": [item.numel() for item in flat], "values": places}
        if share and flat:
            with contextlib.suppress(RuntimeError):  # memory that cannot be shared here
                return described | {"handle": self._share(flat)}
        with rewritten(path) as file:
            for storage in flat:
                storage.cpu().numpy().tofile(file)
        return described | {"path": str(path)}

    def _share(self, flat: Sequence[Any]) -> list[Any]:
        import torch

        size = max(ALIGNMENT, sum(aligned(item.numel()) for item in flat))
        if self._buffer is None or not size <= self._buffer.numel() <= 2 * size:
            self.forget()
            self._pool = torch.cuda.MemPool()
            with torch.cuda.use_mem_pool(self._pool):
                self._buffer = torch.empty(size, dtype=torch.uint8, device=self._device)
            self._handle = handle_of(self._buffer)  # once: torch adds to the memory's owner whenever it is shared
        at = 0
        for value in flat:
            self._buffer[at : at + value.numel()].copy_(value)
            at += aligned(value.numel())
        torch.cuda.synchronize()  # the other process reads on a stream of its own
        return self._handle

    def forget(self) -> None:
        """Free the buffer."""
        self._buffer = self._pool = None

    def forget_large(self) -> None:
        """Free the buffer where it is large."""
        if self._buffer is not None and is_large([self._buffer]):
            self.forget()


def plain_memory(device: str) -> Memory:
    """Return what allocates as torch does."""
    import torch

    return lambda sizes: [torch.empty(size, dtype=torch.uint8, device=device) for size in sizes]


def taken(described: Message, device: str, opened: OpenMemory, memory: Memory | None = None) -> list[Any]:
    """Return the values that a `Handover` described, in `memory`; without one they are views of what is shared, which
    is written again for what is handed over next, or in torch's memory.

    Each storage that was handed over is one vector of the memory. Raises `UnreadableTensorError` where what is shared
    cannot be opened, or the file not be read.
    """
    import torch

    if "handle" in described:
        try:
            whole = torch.empty(0, dtype=torch.uint8, device=device)
            storage = opened.storage_of(described["handle"], whole.device.index or 0)
            whole.set_(storage, 0, (storage.nbytes(),), (1,))
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            raise UnreadableTensorError(f"memory that was handed over could not be opened: {error}") from None
        shared, at = [], 0
        for size in described["sizes"]:
            shared.append(whole[at : at + size])
            at += aligned(size)
        storages: Sequence[Any] = shared if memory is None else memory(described["sizes"])
        for mine, part in zip(storages, shared, strict=True):
            if mine is not part:
                mine.copy_(part)
    else:
        storages = (memory or plain_memory(device))(described["sizes"])
        _read(Path(described["path"]), storages)
    return [_value(item, storages) for item in described["values"]]


def _read(path: Path, storages: Sequence[Any]) -> None:
    """Fill vectors from a file in which one follows the other."""
    import torch

    at = 0
    for storage in storages:
        raw = storage if storage.device.type == "cpu" else torch.empty(storage.shape, dtype=torch.uint8)
        try:
            read_untrusted_into(path, memoryview(raw.numpy()), at)
        except OSError as error:
            raise UnreadableTensorError(f"what was handed over is incomplete: {error.strerror}") from None
        if raw is not storage:
            storage.copy_(raw)
        at += storage.numel()


def _value(described: Message, storages: Sequence[Any]) -> Any:
    import torch

    if "value" in described:
        return described["value"]
    memory, dtype = storages[described["storage"]], getattr(torch, described["dtype"])
    # Of a buffer that several storages share, this one's begins where its view does.
    begin = memory.storage_offset() // dtype.itemsize + described["offset"]
    tensor = torch.empty(0, dtype=dtype, device=memory.device)
    return tensor.set_(memory.untyped_storage(), begin, described["shape"], described["strides"])


def _bytes_of(storage: Any) -> Any:
    """Return a storage as one vector of bytes."""
    import torch

    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
