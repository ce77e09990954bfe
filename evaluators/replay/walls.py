"""Walls around the tensors that a plan's launches see: what a launch does outside of them ends it, or shows afterwards.

On a CPU each tensor has its own mapping, which ends where the tensor does: a launch that goes beyond a page is killed
by the system (`faults` says at which tensor), and the rest of the pages has random contents. On a GPU tensors lie in an
arena, between zones with random contents. These are compared after each batch of calls.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...core import Rejection
from .walled_memory import Place, Placed, drawn_bytes, place_on

RULE = "out-of-bounds"
_WHY = "its launches {did} memory there, which belongs to no tensor; keep every access within a tensor"


class Form(NamedTuple):
    """A tensor's size and layout. `strides` count elements."""

    shape: Sequence[int]
    strides: Sequence[int]
    dtype: Any

    @classmethod
    def of(cls, tensor: Any) -> Form:
        """Return that of a tensor."""
        return cls(tuple(tensor.shape), tensor.stride(), tensor.dtype)

    @property
    def bytes(self) -> int:
        """From its first element to the end of its last."""
        if 0 in self.shape:
            return 0
        last = sum((extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=True))
        return int((last + 1) * self.dtype.itemsize)


class Walled:
    """Memory of some tensors. It is compared as long as this object is kept."""

    def __init__(self, placed: Placed, names: Sequence[str]) -> None:
        self.parts = placed.parts
        """The memory of each tensor, as bytes."""
        self.bounds = placed.bounds
        self.names = names
        self._places = placed.zones
        self.zones = [zone.memory for zone in placed.zones]
        sizes = [zone.numel() for zone in self.zones]
        self.drawn = drawn_bytes(sum(sizes), self.zones[0].device) if sizes else None
        """The contents of all zones, concatenated."""
        self._sizes = sizes
        for zone, drawn in self._pairs():
            zone.copy_(drawn)

    def tensors(self, forms: Sequence[Form]) -> list[Any]:
        """Return the tensors, of which each takes all of its part."""
        import torch

        return [
            torch.empty(0, dtype=form.dtype, device=part.device).set_(
                part.untyped_storage(), 0, tuple(form.shape), tuple(form.strides)
            )
            for form, part in zip(forms, self.parts, strict=True)
        ]

    def changed(self) -> str | None:
        """Return where the zones do not contain what was drawn."""
        for place, (zone, drawn) in zip(self._places, self._pairs(), strict=True):
            at = (zone != drawn).nonzero()
            if not len(at):
                continue
            if place.behind is not None:
                return f"{int(at[0]) + 1} bytes behind the end of {self.names[place.behind]}"
            return f"{zone.numel() - int(at[-1])} bytes before {self.names[place.before or 0]}"
        return None

    def _pairs(self) -> list[tuple[Any, Any]]:
        parts = [] if self.drawn is None else self.drawn.split(self._sizes)
        return list(zip(self.zones, parts, strict=True))

    def beside(self, address: int) -> str | None:
        """Return where an address is, if it is in the guards or zones around one of the tensors."""
        for name, bounds in zip(self.names, self.bounds, strict=True):
            if bounds is None or not bounds.low <= address < bounds.high:
                continue
            if address < bounds.begin:
                return f"{bounds.begin - address} bytes before {name}"
            if address >= bounds.end:
                return f"{address - bounds.end + 1} bytes behind the end of {name}"
        return None


class Walls:
    """All memory with walls of one process."""

    def __init__(self, device: str, place: Place | None = None) -> None:
        """`place` is for tests of one device's way on another."""
        self._place = place or place_on(device)
        self._kept: weakref.WeakSet[Walled] = weakref.WeakSet()

    def around(self, sizes: Sequence[int], names: Sequence[str]) -> Walled:
        """Return new memory with these numbers of bytes; the names are for messages.

        Its contents are undefined. Raises `MemoryError`, or what torch raises, where there is not enough.
        """
        made = Walled(self._place(sizes), names)
        self._kept.add(made)
        return made

    def broken(self) -> Rejection | None:
        """Return the rule that launches broke, where a zone does not contain any more what was drawn."""
        import torch

        kept = [item for item in self._kept if item.zones]
        zones = [zone for item in kept for zone in item.zones]
        if not zones or torch.equal(torch.cat(zones), torch.cat([item.drawn for item in kept])):
            return None
        where = next(found for item in kept if (found := item.changed()) is not None)
        return Rejection(rule=RULE, where=where, why=_WHY.format(did="changed"))

    def touched(self, address: int) -> Rejection | None:
        """Return the rule that an access to this address broke, if it is next to one of the tensors."""
        for item in [*self._kept]:
            if (where := item.beside(address)) is not None:
                return Rejection(rule=RULE, where=where, why=_WHY.format(did="reached"))
        return None
