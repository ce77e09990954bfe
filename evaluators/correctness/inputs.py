"""Buffers for inputs, and new contents for every timed call."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence
from typing import Any

from ..workers.memory import is_large
from ..workers.modules import ProblemModule
from ..workers.one_thread import OneThread
from .distributions import generator_of, is_floating, same_layout
from .eight_bit import narrowed, widened

Tensors = list[Any]
FACTORS = (0.75, 1.25)
"""Range of the factors that scale the elements of timed inputs: still valid, and never the same twice. With one factor
for all, or for each column, a result would follow from an earlier one: a product of scaled matrices is scaled, and a
sum over rows too."""
VARIANTS = 1 << 16
"""Number of places among the factors of a seed where those of a call may begin."""
MOST_FACTORS = 1 << 20
"""The factors that one input uses: of a larger one, elements far from each other share theirs."""
SETS = 2
"""Number of buffers among which timed calls rotate; one where the inputs are large, and in no cache anyway."""


class Buffers:
    """Inputs that keep their address while their contents change.

    A kernel that caches results by address, or by tensor object, then meets the same address with other contents.
    """

    def __init__(self, held: Sequence[Any] = ()) -> None:
        self._held: Tensors = list(held)

    @property
    def are_large(self) -> bool:
        """Whether they are too large to be kept without need."""
        return is_large(self._held)

    def fill(self, values: Sequence[Any]) -> Tensors:
        """Copy the values into this object's tensors; allocates new ones when the shapes change.

        Without tensors it takes large values as they are: a copy would need as much memory again.
        """
        import torch

        if not self._held and is_large(values):
            self._held = list(values)
            return self._held
        self._fit(values)
        for i, value in enumerate(values):
            if isinstance(value, torch.Tensor):
                self._held[i].copy_(value)
            else:
                self._held[i] = value
        return self._held

    def clear(self) -> None:
        """Free the tensors; the next ones may lie elsewhere."""
        self._held = []

    def scaled(self, values: Sequence[Any], factors: Any) -> Tensors:
        """Return the same, with each element of the floating tensors multiplied by one of `factors`, a vector.

        The last two axes of a square tensor have factors for rows and columns instead: a kernel may rely on symmetry,
        and on eigenvalues that are positive, as on zeros and signs.
        """
        import torch

        self._fit(values)
        for held, value in zip(self._held, values, strict=True):
            if is_floating(value):
                wide = widened(value)
                out = held if wide is value else torch.empty_like(wide)
                for factor in _factors(wide, factors):
                    wide = torch.mul(wide, factor, out=out)
                if out is not held:
                    held.copy_(narrowed(out, held.dtype))
            elif isinstance(value, torch.Tensor):
                held.copy_(value)
        return self._held

    def fits(self, values: Sequence[Any]) -> bool:
        """Return whether it has tensors for such values."""
        import torch

        touched = any(
            isinstance(held, torch.Tensor) and (type(held) is not torch.Tensor or vars(held)) for held in self._held
        )
        return not touched and [_layout(held) for held in self._held] == [_layout(value) for value in values]

    def _fit(self, values: Sequence[Any]) -> None:
        import torch

        if not self.fits(values):
            self._held = [same_layout(value) if isinstance(value, torch.Tensor) else value for value in values]


class Feed:
    """Inputs for timed calls, each with contents that no earlier call saw.

    Each seed draws a base; each call gets the base times its own factors, in one of `SETS` buffers. The same seed and
    number of calls give the same contents in another process, so a timed call can be checked there. On a CPU one thread
    writes them: else torch's pool would spin through the first milliseconds of the call, on cores that the candidate's
    own threads need.
    """

    def __init__(self, problem: ProblemModule) -> None:
        self.problem = problem
        self._seed: int | None = None
        self._base: Tensors = []
        self._pool: Any = None
        self._sets = [Buffers()]
        self._factors = random.Random()
        self._left: dict[int, tuple[int, random.Random]] = {}
        self._writing = OneThread() if problem.device == "cpu" else contextlib.nullcontext()
        self.calls = 0

    @property
    def is_large(self) -> bool:
        """Whether the inputs are too large to be kept without need."""
        return is_large(self._base)

    def restart(self, seed: int) -> None:
        """Draw a new base, unless the seed is the current one."""
        if seed == self._seed:
            return
        if self._seed is not None:  # interleaved kernels resume their seeds
            self._left[self._seed] = self.calls, self._factors
        with self._writing:
            self._base = []  # freed before the next one is drawn
            self._base = self.problem.inputs(seed)
            self._sets += [Buffers() for _ in range(0 if self.is_large else SETS - len(self._sets))]
            self._pool = _pool(self._base, seed, self.problem.device)
        self._seed = seed
        self.calls, self._factors = self._left.pop(seed, (0, random.Random(seed)))

    def next(self) -> tuple[int, Tensors]:
        """Return the number of the buffers, and their current contents."""
        number = self.calls % len(self._sets)
        self.calls += 1
        start = self._factors.randrange(VARIANTS)
        with self._writing:
            return number, _variant(self.problem, self._sets[number], self._base, self._pool, self._seed, start)

    @property
    def scales(self) -> bool:
        """Whether calls differ in the factors of the same base; else each has inputs that are drawn for it."""
        return any(is_floating(value) for value in self._base)

    @property
    def pool(self) -> Any:
        """The factors of the base: a call's begin where `starts` says."""
        return self._pool

    def base(self, seed: int) -> Tensors:
        """Return what the seed's calls are variants of."""
        self.restart(seed)
        return self._base

    def forget(self) -> None:
        """Free the base; it is drawn again when it is needed."""
        self._seed, self._base, self._pool = None, [], None

    def starts(self, seed: int, first: int, count: int) -> list[int | None]:
        """Return where the factors begin of `count` calls, from the call with the number `first` on; None for the
        number 0, which is the base itself."""
        factors = random.Random(seed)
        return [None, *(factors.randrange(VARIANTS) for _ in range(first + count - 1))][first : first + count]

    def at(self, seed: int, calls: int, keep: bool = False) -> Tensors:
        """Return the inputs of the call with this number, in memory of their own: 0 is what the seed draws.

        A large base is kept for other calls only if it is to be.
        """
        (start,) = self.starts(seed, calls, 1)
        if start is None:
            return self.problem.inputs(seed)
        base, pool = self.base(seed), self._pool
        own = Buffers()
        if is_large(base) and not keep:  # changed in place, where a copy would need as much memory again
            self.forget()
            own = Buffers(base if _are_separate(base) else ())
        with self._writing:
            return _variant(self.problem, own, base, pool, seed, start)


def _variant(
    problem: ProblemModule, buffers: Buffers, base: Tensors, pool: Any, seed: int | None, start: int
) -> Tensors:
    """Return the base with other factors; where there is nothing to scale, inputs of another seed."""
    if any(is_floating(value) for value in base):
        return buffers.scaled(base, pool[start:])
    return buffers.fill(problem.inputs((seed or 0) + start + 1))


def _pool(base: Tensors, seed: int, device: str) -> Any:
    """Return enough factors that those of the largest input can begin at any of `VARIANTS` places."""
    import torch

    most = max((_span(value.shape, _steps(value.shape)) for value in base if is_floating(value)), default=1)
    generator = generator_of(seed, device)
    return torch.empty(VARIANTS + most, device=device).uniform_(*FACTORS, generator=generator)


def _factors(value: Any, factors: Any) -> list[Any]:
    """Return what a tensor is multiplied by: views of the factors, for a square one two of them."""
    shape = value.shape
    own = factors[: _span(shape, _steps(shape))].to(value.dtype)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        return [own.as_strided(shape, _steps(shape), own.storage_offset())]
    batch = own.as_strided(shape[:-2], _steps(shape[:-2]), own.storage_offset())
    return [own[: shape[-1]], own[: shape[-1], None] * batch[..., None, None]]


def _steps(shape: Sequence[int]) -> list[int]:
    """Return how far apart the factors of neighbours along each axis lie: as their elements, but within a bound."""
    found, step = [], 1
    for extent in reversed(shape):
        found.append(step if step * extent <= MOST_FACTORS else step % max(1, MOST_FACTORS // max(1, extent)) or 1)
        step *= max(1, extent)
    return found[::-1]


def _span(shape: Sequence[int], steps: Sequence[int]) -> int:
    return 1 + sum((max(1, extent) - 1) * step for extent, step in zip(shape, steps, strict=True))


def _are_separate(values: Sequence[Any]) -> bool:
    """Return whether the tensors have memory of their own for every element, so that each can be changed in place."""
    import torch

    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    addresses = {tensor.untyped_storage().data_ptr() for tensor in tensors}
    return len(addresses) == len(tensors) and all(tensor.is_contiguous() for tensor in tensors)


def _layout(value: Any) -> Any:
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    return tuple(value.shape), value.dtype, value.device, value.stride()
