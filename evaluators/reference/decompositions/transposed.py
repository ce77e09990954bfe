"""Transposed convolutions as ordinary ones, for which Inductor has a template.

With stride s an input pixel meets an output pixel only by the taps of the latter's residue modulo s. Residues whose
taps reach the same pixels are one ordinary convolution with their filters side by side, so no product with zero is
computed, as with zeros between the input's pixels. What they yield is interleaved in one pass, in which what follows is
computed too. With stride 1 there is one residue: the filter is flipped, and nothing is interleaved.

As many convolutions as there are kinds of residues (two of each axis, for a filter of 3 with stride 2) are as many
kernels to tune. Above `MOST_CONVOLUTIONS` the kinds of an axis are computed together, unless dilation keeps their
pixels apart, with zeros for the missing taps: 4/3 of the work for that axis, where zeros between pixels would double
it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .convolution import Convolution
from .interleaving import interleaved

MOST_CONVOLUTIONS = 4


@dataclass(frozen=True)
class _Kind:
    """Residues of an axis whose taps reach the same pixels: those `first`, `first + apart`, ... before their own.

    The taps of the i-th begin with `begin + i`.
    """

    begin: int
    count: int
    first: int
    taps: int
    apart: int

    @property
    def last(self) -> int:
        return self.first + self.apart * (self.taps - 1)


@dataclass(frozen=True)
class _Axis:
    """An axis of a transposed convolution. Output pixel o is number o + padding of the whole, without padding."""

    size: int
    taps: int
    stride: int
    padding: int
    dilation: int
    output_padding: int

    @property
    def output(self) -> int:
        reach = self.dilation * (self.taps - 1) + 1
        return (self.size - 1) * self.stride - 2 * self.padding + reach + self.output_padding

    @property
    def begin(self) -> int:
        """The first element that is needed, by residue."""
        return self.padding // self.stride

    @property
    def count(self) -> int:
        return (self.padding + self.output - 1) // self.stride + 1 - self.begin

    @property
    def step(self) -> int:
        """From one tap of a residue to its next."""
        return self.stride // math.gcd(self.stride, self.dilation)

    def residue(self, tap: int) -> int:
        return tap * self.dilation % self.stride

    def kinds(self, together: bool) -> list[_Kind]:
        """Return the kinds of residues that have taps; `together`, one with as many taps as the longest."""
        apart = self.dilation * self.step // self.stride
        begins = range(min(self.step, self.taps))
        if together and apart == 1:
            return [_Kind(0, len(begins), 0, -(-self.taps // self.step), apart)]
        keys = [(tap * self.dilation // self.stride, len(range(tap, self.taps, self.step))) for tap in begins]
        # Both numbers only grow, or shrink, with the tap, so that the residues of a kind follow each other.
        return [_Kind(keys.index(key), keys.count(key), *key, apart) for key in dict.fromkeys(keys)]

    @property
    def waste(self) -> float:
        """Ratio of computed to required work."""
        return sum(kind.count * kind.taps for kind in self.kinds(True)) / self.taps


def transposed(given: Convolution) -> Any:
    """Return a transposed convolution; any other one is left as it is."""
    if not given.transposed:
        return NotImplemented
    shape = zip(
        *(given.x.shape[2:], given.taps, given.stride, given.padding, given.dilation, given.output_padding), strict=True
    )
    axes = [_Axis(*item) for item in shape]
    parts = _joined(given.x, _by_residue(given.weight, given.groups, axes), axes, _kinds(axes), ())
    channels = parts.movedim(2 + len(axes), 2).flatten(1, 2)
    begins = [axis.padding - axis.begin * axis.stride for axis in axes]
    return interleaved(channels, begins, [axis.output for axis in axes], given.bias)


def _kinds(axes: Sequence[_Axis]) -> list[list[_Kind]]:
    """Return the kinds of residues by axis, together in as few axes as need be."""
    kinds = [axis.kinds(False) for axis in axes]
    for number in sorted(range(len(axes)), key=lambda axis: axes[axis].waste):
        if math.prod(map(len, kinds)) > MOST_CONVOLUTIONS:
            kinds[number] = axes[number].kinds(True)
    return kinds


def _by_residue(weight: Any, groups: int, axes: Sequence[_Axis]) -> Any:
    """Return the filters of all residues: (groups, *residues, filters, channels of a group, *taps)."""
    import torch.nn.functional as F  # noqa: N812

    count = len(axes)
    missing = [-axis.taps % axis.step for axis in axes]
    if any(missing):
        weight = F.pad(weight, [item for more in reversed(missing) for item in (0, more)])
    for number in reversed(range(count)):
        weight = weight.unflatten(2 + number, (-1, axes[number].step))
    split = weight.unflatten(0, (groups, -1))  # groups, channels, filters, then taps and residues by turns
    return split.permute(0, *range(4, 4 + 2 * count, 2), 2, 1, *range(3, 3 + 2 * count, 2))


def _joined(
    x: Any, weight: Any, axes: Sequence[_Axis], kinds: Sequence[Sequence[_Kind]], chosen: tuple[_Kind, ...]
) -> Any:
    """Return (batch, groups, *residues, filters, *counts); of the first axes the residues are those of chosen kinds."""
    import torch
    import torch.nn.functional as F  # noqa: N812

    number = len(chosen)
    if number == len(axes):
        return _convolution(x, weight, axes, chosen)
    axis, dim, pieces = axes[number], 2 + number, []
    parts = [_joined(x, weight, axes, kinds, (*chosen, kind)) for kind in kinds[number]]
    for index, place, count, without in _runs(axis, kinds[number]):
        piece = parts[index].narrow(dim, place, count)
        pieces.append(F.pad(piece, [0, 0] * (piece.ndim - 1 - dim) + [0, without]) if without else piece)
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim)


def _runs(axis: _Axis, kinds: Sequence[_Kind]) -> Iterator[tuple[int, int, int, int]]:
    """Yield by runs of residues: the number of their kind, the first one's place in it, and their count.

    And how many residues without taps come after them: residue 0 has taps.
    """
    places = {
        axis.residue(kind.begin + place): (index, place)
        for index, kind in enumerate(kinds)
        for place in range(kind.count)
    }
    begin = 0
    while begin < axis.stride:
        index, place = places[begin]
        end = begin + 1
        while places.get(end) == (index, place + end - begin):
            end += 1
        following = end
        while following < axis.stride and following not in places:
            following += 1
        yield index, place, end - begin, following - end
        begin = following


def _convolution(x: Any, weight: Any, axes: Sequence[_Axis], kinds: Sequence[_Kind]) -> Any:
    """Return what the residues of a kind per axis are: (batch, groups, *residues, filters, *counts)."""
    import torch

    count = len(axes)
    for number, kind in enumerate(kinds):
        weight = weight.narrow(1 + number, kind.begin, kind.count).narrow(3 + count + number, 0, kind.taps)
    margins = [
        (kind.last - axis.begin, axis.begin + axis.count - kind.first - axis.size)
        for axis, kind in zip(axes, kinds, strict=True)
    ]
    padding = [max(before, after, 0) for before, after in margins]  # on both sides alike, without a copy of the input
    result = torch.ops.aten.convolution.default(
        x,
        weight.flip(list(range(3 + count, 3 + 2 * count))).flatten(0, 1 + count),
        None,
        [1] * count,
        padding,
        [kind.apart if kind.taps > 1 else 1 for kind in kinds],
        False,
        [0] * count,
        weight.shape[0],
    )
    for dim, (axis, pad, (before, _)) in enumerate(zip(axes, padding, margins, strict=True), 2):
        result = result.narrow(dim, pad - before, axis.count)
    return result.unflatten(1, weight.shape[: 2 + count])
