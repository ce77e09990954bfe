"""Digests of tensors, computed where they are: enough to notice that one changed, without a copy of it.

Each element's bits are multiplied by a random 64-bit key of its place and summed, modulo 2^64, row by row. Tensors that
differ have equal digests with a probability below 2^-32, whatever the difference, since the keys are drawn after the
process started.
"""

from __future__ import annotations

import functools
import secrets
from dataclasses import dataclass, field
from typing import Any

ROW = 1 << 14
"""Elements that are summed into one number, and the number of keys."""
ROWS = {"cpu": 1 << 2, "cuda": 1 << 10}
"""Rows at a time: bounds the memory of what is computed. On a CPU it stays in a cache."""


def digest(tensor: Any) -> Any:
    """Return the digest as an int64 tensor on the same device; equal for equal bits in logical order.

    NaN equals itself, and zeros have a sign.
    """
    import torch

    words = _words(tensor)
    keys = _keys(tensor.device)
    sums = []
    whole, step = words.numel() // ROW * ROW, ROW * ROWS[tensor.device.type]
    for start in range(0, whole, step):
        rows = words[start : min(whole, start + step)].view(-1, ROW)
        sums.append(_row_sums_on_cpu(rows, keys) if rows.device.type == "cpu" else (rows * keys).sum(dim=1))
    rest = words[whole:]
    sums.append((rest * keys[: rest.numel()]).sum().reshape(1))
    return torch.cat(sums)


def _row_sums_on_cpu(rows: Any, keys: Any) -> Any:
    """Return the sums by NumPy: in a third of the time of torch's, and without its pool of threads, which would spin
    afterwards. A method of the array's type, unlike a function of the module, cannot be replaced by a kernel."""
    import torch

    return torch.from_numpy(rows.numpy().dot(keys.numpy()))


@dataclass(frozen=True)
class HeldOutput:
    """Digest that is stored instead of a copy of an output; equal for outputs with the same bits."""

    like: Any = field(compare=False)
    """One element in the output's shape."""
    digest: tuple[int, ...]

    @classmethod
    def of(cls, tensor: Any) -> HeldOutput:
        """Return what is remembered of a tensor."""
        return cls(tensor.new_empty(()).expand(tensor.shape), tuple(digest(tensor).tolist()))


def _words(tensor: Any) -> Any:
    """Return the bits as integers of at most 32 bits."""
    import torch

    plain = tensor.detach()
    if plain.is_complex():
        plain = torch.view_as_real(plain.resolve_conj())
    return plain.contiguous().reshape(-1).view({1: torch.uint8, 2: torch.int16}.get(plain.element_size(), torch.int32))


@functools.cache
def _keys(device: Any) -> Any:
    import torch

    # A generator of its own: the problem's random numbers must not depend on digests.
    generator = torch.Generator(device).manual_seed(secrets.randbits(63))
    high, low = (torch.randint(0, 1 << 32, (ROW,), generator=generator, device=device) for _ in range(2))
    return (high << 32) | low
