"""Places tensors in memory where what lies between them is known: pages without access, and zones whose bytes
are compared later."""

from __future__ import annotations

import ctypes
import functools
import itertools
import mmap
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

PAGE = mmap.PAGESIZE
GUARD = max(1 << 20, PAGE)
"""Bytes on both sides of a mapping that end a process which touches them. They take addresses and no memory."""
CPU_ALIGNMENT = 64
"""Bytes, as of torch's allocator for a CPU: code that was compiled for its tensors may rely on it."""
GRAIN = 512
"""Bytes: torch's allocator for a GPU aligns tensors to it, and rounds their sizes up to it."""
MOST_GRAINS = 16
"""A zone of an arena has a random size: up to this many grains, and the rest up to the next one."""
ARENA, ARENA_PART = 10 << 20, 2 << 20
"""Bytes. An arena has at least the first, and a multiple of the second: torch's allocator then asks CUDA for exactly
this, so no rounding leaves memory at its end."""


class Zone(NamedTuple):
    """Memory that belongs to no tensor, with the numbers of the adjacent tensors, if any."""

    memory: Any
    behind: int | None
    before: int | None


class Bounds(NamedTuple):
    """Addresses: of a tensor, and of the mapping around it with its guards."""

    low: int
    begin: int
    end: int
    high: int


@dataclass
class Placed:
    """Vectors of bytes, each in a storage of its own that ends where the vector does, and what lies around them."""

    parts: list[Any] = field(default_factory=list)
    zones: list[Zone] = field(default_factory=list)
    bounds: list[Bounds | None] = field(default_factory=list)
    """The bounds of each part; None for a part without guards."""


Place = Callable[[Sequence[int]], Placed]
"""Places vectors of these numbers of bytes."""


def place_on(device: str) -> Place:
    """Return what places vectors on a device."""
    return in_mappings if device == "cpu" else functools.partial(in_arena, device=device)


def in_mappings(sizes: Sequence[int]) -> Placed:
    """Place each vector in a mapping of its own, its end at the end of a page, but for the alignment.

    Raises `MemoryError` where the system gives no more.
    """
    import torch

    placed = Placed()
    for number, size in enumerate(sizes):
        if not size:
            placed.parts.append(torch.empty(0, dtype=torch.uint8))
            placed.bounds.append(None)
            continue
        room = -(-size // PAGE) * PAGE
        begin, end = GUARD + room - -(-size // CPU_ALIGNMENT) * CPU_ALIGNMENT, GUARD + room
        whole = _mapped(room)
        placed.parts.append(_part(whole, begin, size))
        placed.zones += [
            Zone(whole[GUARD:begin], None, number),
            Zone(whole[begin + size : end], number, None),
        ]
        at = whole.data_ptr()
        placed.bounds.append(Bounds(at, at + begin, at + begin + size, at + end + GUARD))
    return placed


def _mapped(room: int) -> Any:
    """Return private memory with guards around it; it is unmapped with the last tensor in it."""
    import torch

    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    try:
        whole = torch.frombuffer(mmap.mmap(-1, room + 2 * GUARD, flags=flags), dtype=torch.uint8)
    except OSError as error:
        raise MemoryError(f"{room} bytes could not be mapped: {error.strerror}") from None
    for at in (0, GUARD + room):
        if _libc().mprotect(whole.data_ptr() + at, GUARD, 0):
            raise MemoryError(f"guards could not be set up (errno {ctypes.get_errno()})")
    return whole


@functools.cache
def _libc() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    library.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return library


def in_arena(sizes: Sequence[int], device: str) -> Placed:
    """Place vectors in one allocation of a device, at random distances from each other and from its ends."""
    import torch

    if not sizes:
        return Placed()
    ends, at, begins = [0], 0, []
    for size in sizes:
        begins.append(-(-(at + _distance()) // GRAIN) * GRAIN)
        at = begins[-1] + size
        ends.append(at)
    total = max(ARENA, -(-(at + _distance()) // ARENA_PART) * ARENA_PART)
    whole = torch.empty(total, dtype=torch.uint8, device=device)
    placed = Placed(bounds=[None] * len(sizes))
    placed.parts = [_part(whole, begin, size) for begin, size in zip(begins, sizes, strict=True)]
    last = len(sizes)
    placed.zones = [
        Zone(whole[end:begin], number - 1 if number else None, number if number < last else None)
        for number, (end, begin) in enumerate(zip(ends, itertools.chain(begins, [total]), strict=True))
    ]
    return placed


def apart(sizes: Sequence[int], device: str) -> Placed:
    """Place each vector in an allocation of its own, with nothing around it: another tool watches its ends."""
    import torch

    parts = [torch.empty(size, dtype=torch.uint8, device=device) for size in sizes]
    return Placed(parts, bounds=[None] * len(sizes))


def _distance() -> int:
    return GRAIN * (1 + secrets.randbelow(MOST_GRAINS))


def _part(whole: Any, begin: int, size: int) -> Any:
    """Return a part of a vector of bytes with a storage of its own: views of it reach no further."""
    import torch

    storage = whole.untyped_storage()[begin : begin + size]
    return torch.empty(0, dtype=torch.uint8, device=whole.device).set_(storage)


def drawn_bytes(count: int, device: Any) -> Any:
    """Return a vector of random bytes on a device."""
    import torch

    generator = torch.Generator(device).manual_seed(secrets.randbits(63))
    words = torch.empty(-(-count // 8), dtype=torch.int64, device=device).random_(generator=generator)
    return words.view(torch.uint8)[:count]
