"""Random bytes, with which memory is filled before each call, one that is checked and one that is timed alike.

One of 256 numbers in fp32 is then NaN or infinite, as one of 32 in fp16: so reads of uninitialized memory show.
"""

from __future__ import annotations

import secrets
from functools import cached_property
from typing import Any

LENGTH = 1 << 20
"""Bytes that memory is filled with, again and again, from a random one on."""


class RandomBytes:
    """Fills memory of one device."""

    def __init__(self, device: str) -> None:
        self._device = device

    def fill(self, memory: Any) -> None:
        """Fill a vector of bytes."""
        begin = secrets.randbelow(LENGTH)
        part = self._drawn[begin : begin + LENGTH]
        whole = memory.numel() // LENGTH
        memory[: whole * LENGTH].view(whole, LENGTH).copy_(part.expand(whole, LENGTH))
        rest = memory[whole * LENGTH :]
        rest.copy_(part[: rest.numel()])

    @cached_property
    def _drawn(self) -> Any:
        import torch

        # A generator of its own: the random numbers of torch's operators must not depend on it.
        generator = torch.Generator(self._device).manual_seed(secrets.randbits(63))
        return torch.randint(0, 256, (2 * LENGTH,), generator=generator, device=self._device, dtype=torch.uint8)
