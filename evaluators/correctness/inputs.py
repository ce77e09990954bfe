"""Inputs that a kernel has not seen: other distributions for checks, and new contents for every timed call."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from ..workers.modules import ProblemModule

Tensors = list[Any]
FACTORS = (0.75, 1.25)
"""Range of the factors that scale the columns of timed inputs: still valid, and never the same twice. With one factor
for all columns, a result would follow from an earlier one: a product of scaled matrices is scaled."""
VARIANTS = 1 << 16
"""Number of such factor vectors per seed."""
SETS = 2
"""Number of buffers among which timed calls rotate."""


def _signs(x: Any, generator: Any) -> Any:
    import torch

    return x * (torch.randint(0, 2, x.shape, generator=generator, device=x.device, dtype=x.dtype) * 2 - 1)


def _heavy_tails(x: Any, generator: Any) -> Any:
    import torch

    normal = torch.randn(x.shape, generator=generator, device=x.device, dtype=torch.float32)
    return x * (1.5 * normal).exp().to(x.dtype)


def _structure(x: Any, generator: Any) -> Any:
    """Set a quarter to zero and a quarter to one value: empty rows, and ties where one element is selected."""
    flat = x.clone().reshape(-1)
    quarter = flat.numel() // 4
    flat[:quarter] = 0
    flat[quarter : 2 * quarter] = flat[-1:]
    return flat.reshape(x.shape)


STRUCTURE = "structure"
_CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "signs": _signs,
    "small": lambda x, generator: x * 1e-2,
    "large": lambda x, generator: x * 64,
    "heavy tails": _heavy_tails,
    STRUCTURE: _structure,
}
DISTRIBUTIONS = tuple(_CHANGES)
"""Distributions that checks use beside the problem's own inputs, where the reference supports them."""


def draw(problem: ProblemModule, seed: int, distribution: str | None = None) -> Tensors:
    """Draw a problem's inputs for a seed, optionally with another distribution; the same in every process."""
    import torch

    inputs = problem.inputs(seed)
    if distribution is None:
        return inputs
    generator = torch.Generator(problem.device).manual_seed(seed)
    change = _CHANGES[distribution]
    return [change(value, generator) if _is_floating(value) else value for value in inputs]


def vary_constants(model: Any, seed: int) -> Any:
    """Add noise to parameters whose elements are all equal (a normalization's weights of 1), and to the running mean
    and variance of a normalization that has seen no data.

    A kernel that ignores such a tensor would otherwise be correct by chance. Returns the model.
    """
    for parameter in model.parameters():
        if parameter.is_floating_point() and _is_constant(parameter):
            parameter.data.add_(0.1 * _noise(parameter, seed))
    for module in model.modules():
        mean, variance = getattr(module, "running_mean", None), getattr(module, "running_var", None)
        if mean is not None and variance is not None and _is_constant(mean) and _is_constant(variance):
            mean.add_(0.1 * _noise(mean, seed))
            variance.mul_(1 + 0.1 * _noise(variance, seed + 1).abs())
    return model


def _is_constant(tensor: Any) -> bool:
    flat = tensor.detach().reshape(-1)
    return bool(flat.numel() and (flat == flat[0]).all())


def _noise(like: Any, seed: int) -> Any:
    import torch

    generator = torch.Generator(like.device).manual_seed(seed)
    return torch.randn(like.shape, generator=generator, device=like.device, dtype=torch.float32).to(like.dtype)


class Buffers:
    """Inputs that keep their address while their contents change.

    A kernel that caches results by address, or by tensor object, then meets the same address with other contents.
    """

    def __init__(self) -> None:
        self._held: Tensors = []

    def fill(self, values: Sequence[Any]) -> Tensors:
        """Copy the values into this object's tensors; allocates new ones when the shapes change."""
        import torch

        self._fit(values)
        for i, value in enumerate(values):
            if isinstance(value, torch.Tensor):
                self._held[i].copy_(value)
            else:
                self._held[i] = value
        return self._held

    def scaled(self, values: Sequence[Any], factors: Any) -> Tensors:
        """Return the same, with each column of the floating tensors multiplied by the next of `factors`, a vector.

        In a square tensor rows and columns: a kernel may rely on symmetry, as on zeros and signs.
        """
        import torch

        self._fit(values)
        for held, value in zip(self._held, values, strict=True):
            if _is_floating(value):
                axis = max((i for i, extent in enumerate(value.shape) if extent > 1), default=0)
                torch.mul(value, _along(value, factors, axis), out=held)
                if axis > 0 and value.shape[axis - 1] == value.shape[axis]:
                    held.mul_(_along(value, factors, axis - 1))  # a symmetric matrix stays one, up to rounding
            elif isinstance(value, torch.Tensor):
                held.copy_(value)
        return self._held

    def _fit(self, values: Sequence[Any]) -> None:
        import torch

        touched = any(
            isinstance(held, torch.Tensor) and (type(held) is not torch.Tensor or vars(held)) for held in self._held
        )
        if touched or [_layout(held) for held in self._held] != [_layout(value) for value in values]:
            self._held = [value.clone() if isinstance(value, torch.Tensor) else value for value in values]


class Feed:
    """Inputs for timed calls, each with contents that no earlier call saw.

    Each seed draws a base; each call gets the base times its own factor, in one of `SETS` buffers. The same seed and
    number of calls give the same contents in another process, so a timed call can be checked there.
    """

    def __init__(self, problem: ProblemModule) -> None:
        self._problem = problem
        self._seed: int | None = None
        self._base: Tensors = []
        self._pool: Any = None
        self._sets = [Buffers() for _ in range(SETS)]
        self._factors = random.Random()
        self._left: dict[int, tuple[int, random.Random]] = {}
        self.calls = 0

    def restart(self, seed: int) -> None:
        """Draw a new base, unless the seed is the current one."""
        if seed == self._seed:
            return
        if self._seed is not None:  # interleaved kernels resume their seeds
            self._left[self._seed] = self.calls, self._factors
        self._base = self._problem.inputs(seed)
        self._pool = _pool(self._base, seed, self._problem.device)
        self._seed = seed
        self.calls, self._factors = self._left.pop(seed, (0, random.Random(seed)))

    def next(self) -> tuple[int, Tensors]:
        """Return the number of the buffers, and their current contents."""
        number = self.calls % SETS
        self.calls += 1
        start = self._factors.randrange(VARIANTS)
        return number, _variant(self._problem, self._sets[number], self._base, self._pool, self._seed, start)

    def at(self, seed: int, calls: int) -> Tensors:
        """Return the inputs of the call with this number, the first being 1."""
        base, factors = self._problem.inputs(seed), random.Random(seed)
        start = [factors.randrange(VARIANTS) for _ in range(calls)][-1]
        return _variant(self._problem, Buffers(), base, _pool(base, seed, self._problem.device), seed, start)


def _variant(
    problem: ProblemModule, buffers: Buffers, base: Tensors, pool: Any, seed: int | None, start: int
) -> Tensors:
    """Return the base with other factors; where there is nothing to scale, inputs of another seed."""
    if any(_is_floating(value) for value in base):
        return buffers.scaled(base, pool[start:])
    return buffers.fill(problem.inputs((seed or 0) + start + 1))


def _pool(base: Tensors, seed: int, device: str) -> Any:
    """Return enough factors that a vector for the longest input can begin at any of `VARIANTS` places."""
    import torch

    longest = max((max(value.shape, default=1) for value in base if _is_floating(value)), default=1)
    generator = torch.Generator(device).manual_seed(seed)
    return torch.empty(VARIANTS + longest, device=device).uniform_(*FACTORS, generator=generator)


def _along(value: Any, factors: Any, axis: int) -> Any:
    """Return as many factors as the axis has elements, in a shape that multiplies along it."""
    if not value.dim():
        return factors[0].to(value.dtype)
    shape = [extent if i == axis else 1 for i, extent in enumerate(value.shape)]
    return factors[: value.shape[axis]].to(value.dtype).view(shape)


def _is_floating(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _layout(value: Any) -> Any:
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    return tuple(value.shape), value.dtype, value.device, value.stride()
