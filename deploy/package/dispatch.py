"""Chooses a kernel by device, dtypes, strides and sizes of the arguments, as table.json has it."""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

ALIGNED = 16
"""Kernels were checked with tensors whose memory begins at a multiple of this many bytes."""
MOST = 4096
"""Sets of sizes whose choice is remembered."""


@dataclass(frozen=True)
class TableRow:
    """One line of the table: a kernel, and which arguments it serves."""

    kernel: str
    """Its module in kernels/."""
    device: str
    """'cpu' or 'cuda'."""
    arguments: tuple[Any, ...]
    """In order: [dtype, [sizes]] for a tensor, with a number, 'tokens' or '64*tokens' as a size; otherwise a value.

    A third element is the order of the dimensions in memory, the outermost first, where it is not theirs.
    """
    free: tuple[str, int, int] | None
    """The size that is free, with the least and the largest value of it."""
    sizes: Mapping[str, Any]
    """Constants of the reference's file that were set when the kernel was measured."""
    repeatable: bool = False
    """Whether a call may be repeated from its steps: its Python reads no memory of tensors."""
    deterministic: bool = True
    """Whether the kernel adds in a fixed order: it has no atomics."""

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> TableRow:
        """Return the row of an entry of table.json."""
        free = plain["serves"]
        return cls(
            plain["kernel"],
            plain["device"],
            tuple(plain["arguments"]),
            None if free is None else (free["size"], free["from"], free["to"]),
            plain["sizes"],
            plain.get("repeatable", False),
            plain.get("deterministic", True),
        )

    def mismatch(self, arguments: Sequence[Any], aligned: bool = True) -> str:
        """Return why the row does not serve the arguments: 'device', 'dtype', 'strides', 'sizes'; '' if it does."""
        wanted = zip(self.arguments, arguments, strict=True)
        tensors = [(item, value) for item, value in wanted if isinstance(value, torch.Tensor)]
        devices = {value.device for _, value in tensors}
        if len(devices) > 1 or any(device.type != self.device for device in devices):
            return "device"
        if any(str(value.dtype) != f"torch.{item[0]}" for item, value in tensors):
            return "dtype"
        if not (aligned and all(is_strided(value) and _lies_as(value, item[2:]) for item, value in tensors)):
            return "strides"
        others = zip(self.arguments, arguments, strict=True)
        if any(item != value for item, value in others if not isinstance(value, torch.Tensor)):
            return "values"
        return "" if self._fits([(item[1], value.shape) for item, value in tensors]) else "sizes"

    def _fits(self, shapes: Sequence[tuple[Sequence[Any], Sequence[int]]]) -> bool:
        found: int | None = None
        for wanted, shape in shapes:
            if len(wanted) != len(shape):
                return False
            for size, actual in zip(wanted, shape, strict=True):
                if isinstance(size, int):
                    if actual != size:
                        return False
                    continue
                factor = int(size.partition("*")[0]) if "*" in size else 1
                value = actual // factor
                if value * factor != actual or (found is not None and value != found):
                    return False
                found = value
        if self.free is None or found is None:
            return True
        return self.free[1] <= found <= self.free[2]


def key_of(arguments: Sequence[Any]) -> Hashable | None:
    """Return everything that a choice depends on; None while a call is traced: its tensors have no memory, and their
    sizes may be symbols. Sparse tensors have no such key either.
    """
    found: list[Any] = []
    for item in arguments:
        kind = type(item)
        if (kind is torch.Tensor or kind is torch.nn.Parameter) and item.layout is torch.strided:
            found += (item.shape, item.stride(), item.dtype, item.device, item.data_ptr() % ALIGNED == 0)
        elif isinstance(item, torch.Tensor):
            return None
        else:
            found.append(item)
    return tuple(found)


def _lies_as(tensor: torch.Tensor, order: Sequence[Sequence[int]]) -> bool:
    """Return whether the tensor is contiguous, its dimensions in the given order if there is one."""
    if order and len(order[0]) == tensor.dim():
        tensor = tensor.permute(*order[0])
    return bool(tensor.is_contiguous())


def is_strided(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has strides, which no sparse one has."""
    return bool(tensor.layout is torch.strided)


class Dispatch:
    """All rows, the choices made so far, and how often none of the rows served."""

    def __init__(self, name: str, rows: Sequence[TableRow]) -> None:
        self.name = name
        self.rows = tuple(rows)
        self.counted: Counter[str] = Counter()
        """Calls that the reference served in place of a kernel, by reason."""
        self._chosen: dict[Any, TableRow | str] = {}
        self._lock = threading.Lock()

    def row(self, arguments: Sequence[Any], key: Hashable | None) -> TableRow | None:
        """Return the row that serves the arguments; None, counted and with one warning, if the reference has to.

        `key` is that of the arguments, None while a call is traced.
        """
        found = None if key is None else self._chosen.get(key)
        if found is None:
            tensors = [item for item in arguments if isinstance(item, torch.Tensor)]
            aligned = key is None or all(item.data_ptr() % ALIGNED == 0 for item in tensors)
            found = self._find(arguments, aligned)
            if key is not None:
                if len(self._chosen) >= MOST:
                    self._chosen.clear()
                self._chosen[key] = found
        if isinstance(found, TableRow):
            return found
        self.count(found, arguments)
        return None

    def _find(self, arguments: Sequence[Any], aligned: bool) -> TableRow | str:
        reasons = []
        for row in self.rows:
            reason = row.mismatch(arguments, aligned)
            if not reason:
                return row
            reasons.append(reason)
        # The row that came closest tells why.
        return max(reasons, key=("device", "dtype", "strides", "values", "sizes").index)

    def count(self, reason: str, arguments: Sequence[Any]) -> None:
        """Count a call that the reference serves, and warn of the first one."""
        with self._lock:
            first = not self.counted
            self.counted[reason] += 1
        if first:
            text = ", ".join(
                f"{str(item.dtype).removeprefix('torch.')}{list(item.shape)}" if hasattr(item, "shape") else repr(item)
                for item in arguments
            )
            warnings.warn(
                f"{self.name}: no kernel for these {reason} ({text}); plain torch computes it. table.json says what "
                "there are kernels for, fallbacks() counts such calls",
                stacklevel=2,
            )
