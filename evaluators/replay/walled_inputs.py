"""Inputs of a process that replays, between walls: those that were handed over, and each call's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..correctness.inputs import Buffers
from ..workers.channel import Message
from ..workers.handover import Memory
from .executor import bytes_of
from .random_bytes import RandomBytes
from .walls import Form, Walled, Walls


class WalledHandovers:
    """Memory for what is handed over, of each kind until it is forgotten."""

    def __init__(self, walls: Walls) -> None:
        self._walls = walls
        self._kept: dict[str, list[Walled]] = {}

    def memory(self, kind: str, described: Message, names: Sequence[str]) -> Memory:
        """Return memory for what a `Handover` described; a storage has the name of the first tensor in it."""
        first: dict[int, str] = {}
        for name, value in zip(names, described["values"], strict=True):
            first.setdefault(value.get("storage", -1), name)

        def make(sizes: Sequence[int]) -> Sequence[Any]:
            walled = self._walls.around(sizes, [first.get(number, kind) for number in range(len(sizes))])
            self._kept.setdefault(kind, []).append(walled)
            return walled.parts

        return make

    def forget(self, kind: str) -> None:
        """Compare what lies around this kind no longer, since it is freed."""
        self._kept.pop(kind, None)


class WalledInputs:
    """Buffers by place: that of a call in its batch. They keep their addresses from batch to batch."""

    def __init__(self, walls: Walls, random: RandomBytes) -> None:
        self._walls = walls
        self._random = random
        self._buffers: dict[int, Buffers] = {}
        self._kept: dict[int, Walled] = {}
        self._gaps: dict[int, list[Any]] = {}

    def make(self, values: Mapping[int, Sequence[Any]]) -> None:
        """Make the buffers that these places need for such values; spoil memory with gaps between elements in all.

        Calls with tensors whose elements share memory get torch's memory, each time that it is filled.
        """
        missing = {
            place: own for place, own in values.items() if all(map(_is_separate, own)) and not self.at(place).fits(own)
        }
        forms = [Form.of(item) for own in missing.values() for item in own if _is_tensor(item)]
        names = [
            f"input {number} of call {place}"
            for place, own in missing.items()
            for number, value in enumerate(own)
            if _is_tensor(value)
        ]
        walled = self._walls.around([form.bytes for form in forms], names)
        made = iter(walled.tensors(forms))
        for place, own in missing.items():
            held = [next(made) if _is_tensor(item) else item for item in own]
            self._buffers[place], self._kept[place] = Buffers(held), walled
            self._gaps[place] = [bytes_of(item) for item in held if _is_tensor(item) and _has_gaps(item)]
        for place in values:
            for whole in self._gaps.get(place, ()):
                self._random.fill(whole)

    def at(self, place: int) -> Buffers:
        """Return the buffers of a place."""
        return self._buffers.setdefault(place, Buffers())

    def clear(self) -> None:
        """Free all."""
        for item in (self._buffers, self._kept, self._gaps):
            item.clear()


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _is_separate(value: Any) -> bool:
    """Return whether no elements of a tensor need to share memory; True for what is none."""
    return not _is_tensor(value) or Form.of(value).bytes >= value.numel() * value.element_size()


def _has_gaps(tensor: Any) -> bool:
    return bool(tensor.numel() * tensor.element_size() < tensor.untyped_storage().nbytes())
