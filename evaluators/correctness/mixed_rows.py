"""Inputs whose rows are of different kinds: what is right for most rows may be wrong for one kind of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Mixture:
    """How the rows of a problem's inputs are mixed."""

    most: float
    """The largest factor of a row's elements."""
    alike: bool = True
    """Whether inputs of the same shape are changed in the same way, so that a quiet row meets a quiet one; else only
    the first of them is."""
    special: bool = True
    """Whether there are rows with NaN and infinity. They are not compared, and must not change other rows."""


MODERATE = "mixed rows of moderate size"
MIXED = {
    "mixed rows": Mixture(1e30),
    "mixed rows of one input": Mixture(1e30, alike=False),
    "mixed rows of large size": Mixture(1e12, special=False),
    MODERATE: Mixture(64.0, special=False),
}
"""Distributions by name, of which the first is used that the dtype and the reference support."""
VECTOR = 64
"""Elements of a row where a tensor has one axis only."""
SPIKE = (96.0, 512.0)
"""Range of what stands alone in a quiet row: beyond what has an exponent in fp32."""
TRIED = 4
"""Places of which one with the largest element gets it, so that it is positive in most rows if numbers of both signs
are: exponents of negative ones do not overflow."""
SPIKES = (1.0, 1e3)
"""Range where there are several."""
QUIET = 1e-3
TINY = 1e-7
LEAST_SCALE = 1e-30
LEAST_ELEMENT = 1e-6
NEARLY = ((64.0, 3e-4), (1.0, 1e-3))
"""Nearly constant rows: what the constant is multiplied by, and the relative noise. The variance of the first is a
ten-millionth of the mean square, which fp32 cannot hold, and still far above a usual epsilon of 1e-5."""


def main_input(inputs: Sequence[Any]) -> int:
    """Return the number of the tensor whose rows are mixed: the first floating one with rows, or the first one."""
    floating = [i for i, value in enumerate(inputs) if hasattr(value, "dtype") and value.is_floating_point()]
    return next((i for i in floating if inputs[i].dim() > 1), floating[0])


def mixed(x: Any, generator: Any, mixture: Mixture) -> Any:
    """Return a tensor of the same shape whose rows are changed, each in one of several ways.

    Of a tensor with more than two axes, about half of the samples are of one kind as a whole, since an element of a
    result may depend on many rows. Signs stay as they are: a reference may need positive numbers.
    """
    import torch

    flat = x.clone().reshape(-1)
    draw = _Draw(flat, generator, mixture)
    length = _length(x.shape)
    rows = flat[: len(flat) // length * length].view(-1, length)
    single = torch.ones(len(rows), dtype=torch.bool, device=x.device)
    if x.dim() > 2 and len(x):
        samples = flat.view(len(x), -1)
        whole = torch.rand(len(x), generator=generator, device=x.device) < 0.5
        _change(samples, whole, draw)
        single = ~whole.repeat_interleave(len(rows) // len(x))
    _change(rows, single, draw)
    return flat.reshape(x.shape)


def _change(rows: Any, which: Any, draw: _Draw) -> None:
    """Change the rows that are set in `which`, a mask."""
    places = which.nonzero()[:, 0]
    kinds = _KINDS + ((_special,) if draw.special else ())
    # Of few rows, other kinds come each time.
    numbers = draw.permutation(max(len(places), len(kinds)))[: len(places)] % len(kinds)
    for number, kind in enumerate(kinds):
        chosen = places[numbers == number]
        if len(chosen):
            rows[chosen] = kind(rows[chosen], draw).to(rows.dtype)


def _length(shape: Sequence[int]) -> int:
    elements = math.prod(shape)
    if len(shape) < 2:
        return max(1, min(VECTOR, elements))
    return max(1, elements // max(1, shape[0]) if shape[-1] == 1 else shape[-1])


class _Draw:
    """Random numbers for the rows of one tensor."""

    def __init__(self, like: Any, generator: Any, mixture: Mixture) -> None:
        import torch

        self._generator, self._device = generator, like.device
        self._dtype = torch.float64 if like.dtype == torch.float64 else torch.float32
        self.most, self.special = mixture.most, mixture.special
        self.smallest = torch.finfo(like.dtype).tiny

    def permutation(self, count: int) -> Any:
        import torch

        return torch.randperm(count, generator=self._generator, device=self._device)

    def normal(self, rows: Any) -> Any:
        import torch

        return torch.randn(rows.shape, generator=self._generator, device=self._device, dtype=self._dtype)

    def powers(self, shape: Any, low: float, high: float) -> Any:
        """Return numbers up to `most` whose logarithm is uniform."""
        import torch

        low, high = math.log(min(low, self.most)), math.log(min(high, self.most))
        drawn = torch.rand(shape, generator=self._generator, device=self._device, dtype=self._dtype)
        return drawn.mul_(high - low).add_(low).exp_()

    def sizes(self, count: int, low: float, high: float) -> Any:
        """Return such numbers, one for each row, spread over the whole range: a few rows leave no gap by chance."""
        import torch

        low, high = math.log(min(low, self.most)), math.log(min(high, self.most))
        drawn = torch.rand((count, 1), generator=self._generator, device=self._device, dtype=self._dtype)
        spread = drawn.add_(self.permutation(count)[:, None]).div_(max(1, count))
        return spread.mul_(high - low).add_(low).exp_()

    def places(self, rows: Any, one_in: int = 0) -> Any:
        """Return random columns for each row: one per this many columns, or a single one."""
        import torch

        columns = rows.shape[1]
        if not one_in:
            tried = torch.randint(0, columns, (len(rows), TRIED), generator=self._generator, device=self._device)
            return tried.gather(1, rows.gather(1, tried).argmax(1, keepdim=True))
        width = min(one_in, columns)
        starts = torch.arange(0, columns - width + 1, width, device=self._device)
        shape = len(rows), len(starts)
        # No column comes twice: which of two values it would get differs from run to run on a GPU.
        return starts + torch.randint(0, width, shape, generator=self._generator, device=self._device)


_Kind = Callable[[Any, _Draw], Any]


def _spikes(base: float, one_in: int = 0) -> _Kind:
    """Rows times `base`, with a single spike, or one per this many elements."""

    def change(rows: Any, draw: _Draw) -> Any:
        at = draw.places(rows, one_in)
        spikes = draw.powers(at.shape, *(SPIKES if one_in else SPIKE)) * rows.gather(1, at).sign()
        return (rows * base).scatter_(1, at, spikes.to(rows.dtype))

    return change


def _nearly_constant(size: float, noise: float) -> _Kind:
    return lambda rows, draw: rows[:, :1] * size * (1 + noise * draw.normal(rows))


def _after_zeros(rows: Any, draw: _Draw) -> Any:
    rows[:, : rows.shape[1] // 2] = 0
    return rows


def _of_one_size(low: float, high: float) -> _Kind:
    return lambda rows, draw: rows * draw.sizes(len(rows), low, high)


def _of_all_sizes(rows: Any, draw: _Draw) -> Any:
    return rows * draw.powers(rows.shape, LEAST_ELEMENT, 1 / LEAST_ELEMENT)


def _repeated(rows: Any, draw: _Draw) -> Any:
    """One row again and again, of a part that is repeated within it."""
    period = max(1, rows.shape[1] // 8)
    part = rows[:1, :period].repeat(1, -(-rows.shape[1] // period))
    return part[:, : rows.shape[1]].expand(rows.shape)


def _special(rows: Any, draw: _Draw) -> Any:
    for value in (float("nan"), float("inf"), -float("inf")):
        rows.scatter_(1, draw.places(rows), value)
    return rows


_KINDS: tuple[_Kind, ...] = (
    lambda rows, draw: rows,
    _spikes(0.0),
    _of_one_size(1.0, 1e30),
    lambda rows, draw: rows * TINY,
    _nearly_constant(*NEARLY[0]),
    _after_zeros,
    lambda rows, draw: rows * draw.smallest / 16,  # denormal
    _of_one_size(LEAST_SCALE, 1.0),
    lambda rows, draw: rows[:, :1].expand(rows.shape),
    _spikes(QUIET, one_in=8),
    _nearly_constant(*NEARLY[1]),
    lambda rows, draw: rows.sort(dim=1).values,
    _of_all_sizes,
    _spikes(QUIET),
    _repeated,
    _of_one_size(1e4, 1e30),
    lambda rows, draw: rows * 0,
)
