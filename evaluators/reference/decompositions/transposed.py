"""Transposed convolutions as ordinary ones, for which Inductor has a template.

With stride s an input pixel meets an output pixel only by the taps of the latter's residue modulo s. Residues whose
taps reach the same pixels are one ordinary convolution with their filters side by side, so no product with zero is
computed, as with zeros between the input's pixels. What they yield is interleaved in one pass, in which what follows is
computed too. With stride 1 there is one residue: the filter is flipped, and nothing is interleaved.

As many convolutions as there are kinds of residues (two of each axis, for a filter of 3 with stride 2) are as many
kernels to tune. Above `MOST_CONVOLUTIONS` the kinds of an axis are computed together, with zeros for the missing taps:
4/3 of the work for that axis, while zeros between pixels would double it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .interleaving import interleaved

MOST_CONVOLUTIONS = 4


@dataclass(frozen=True)
class _Kind:
    """Residues of an axis whose taps reach the same pixels: number `first`, `first + apart`, ... before its own."""

    residues: tuple[int, ...]
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
        """Of each residue, the first element that is needed."""
        return self.padding // self.stride

    @property
    def count(self) -> int:
        return (self.padding + self.output - 1) // self.stride + 1 - self.begin

    @property
    def step(self) -> int:
        """From one tap of a residue to its next."""
        return self.stride // math.gcd(self.stride, self.dilation)

    def kinds(self, together: bool) -> list[_Kind]:
        """Return the kinds of residues that have taps; `together`, one with as many taps as the longest."""
        apart = self.dilation * self.step // self.stride
        found: dict[tuple[int, int], list[int]] = {}
        for tap in range(min(self.step, self.taps)):
            first, residue = divmod(tap * self.dilation, self.stride)
            found.setdefault((first, len(range(tap, self.taps, self.step))), []).append(residue)
        kinds = [_Kind(tuple(sorted(residues)), *key, apart) for key, residues in found.items()]
        if not together or len(kinds) == 1 or apart > 1:
            return kinds
        every = sorted(itertools.chain.from_iterable(kind.residues for kind in kinds))
        return [_Kind(tuple(every), 0, max(kind.taps for kind in kinds), apart)]

    @property
    def waste(self) -> float:
        """How much more is computed together."""
        return sum(len(kind.residues) * kind.taps for kind in self.kinds(True)) / self.taps

    def start_of(self, kind: _Kind, residue: int) -> int:
        """Return the first tap of a residue."""
        return next(tap for tap in range(self.taps) if tap * self.dilation == residue + self.stride * kind.first)


def transposed(
    x: Any,
    weight: Any,
    bias: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Any:
    """A decomposition of `aten.convolution`: x is (batch, channels, *sizes), weight (channels, filters, *taps).

    Any other convolution is left as it is.
    """
    if not transposed:
        return NotImplemented
    shape = zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, output_padding, strict=True)
    axes = [_Axis(*one) for one in shape]
    parts = _joined(x, weight, groups, axes, _kinds(axes), ())
    channels = parts.movedim(2 + len(axes), 2).flatten(1, 2)
    begins = [axis.padding - axis.begin * axis.stride for axis in axes]
    return interleaved(channels, begins, [axis.output for axis in axes], bias)


def _kinds(axes: Sequence[_Axis]) -> list[list[_Kind]]:
    """Return the kinds of residues by axis, together in as few axes as need be."""
    kinds = [axis.kinds(False) for axis in axes]
    for number in sorted(range(len(axes)), key=lambda one: axes[one].waste):
        if math.prod(map(len, kinds)) > MOST_CONVOLUTIONS:
            kinds[number] = axes[number].kinds(True)
    return kinds


def _joined(
    x: Any, weight: Any, groups: int, axes: Sequence[_Axis], kinds: Sequence[Sequence[_Kind]], chosen: tuple[_Kind, ...]
) -> Any:
    """Return (batch, groups, *residues, filters, *counts); of the first axes the residues are those of chosen kinds."""
    import torch

    axis = len(chosen)
    if axis == len(axes):
        return _convolution(x, weight, groups, axes, chosen)
    parts = [_joined(x, weight, groups, axes, kinds, (*chosen, kind)) for kind in kinds[axis]]
    places = {
        residue: (number, place)
        for number, kind in enumerate(kinds[axis])
        for place, residue in enumerate(kind.residues)
    }
    dim, pieces = 2 + axis, []
    for begin, end in _runs([places.get(residue) for residue in range(axes[axis].stride)]):
        if begin in places:
            number, place = places[begin]
            pieces.append(parts[number].narrow(dim, place, end - begin))
        else:  # no tap reaches these
            shape = list(parts[0].shape)
            shape[dim] = end - begin
            pieces.append(parts[0].new_zeros(shape))
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim)


def _runs(places: Sequence[tuple[int, int] | None]) -> list[tuple[int, int]]:
    """Return ranges of residues whose places follow each other, or that have none."""
    ends = [0]
    for number, (one, other) in enumerate(itertools.pairwise(places), 1):
        follows = one == other if one is None or other is None else other == (one[0], one[1] + 1)
        if not follows:
            ends.append(number)
    return list(itertools.pairwise([*ends, len(places)]))


def _convolution(x: Any, weight: Any, groups: int, axes: Sequence[_Axis], kinds: Sequence[_Kind]) -> Any:
    """Return what the residues of a kind per axis are: (batch, groups, *residues, filters, *counts)."""
    import torch

    margins = [
        (kind.last - axis.begin, axis.begin + axis.count - kind.first - axis.size)
        for axis, kind in zip(axes, kinds, strict=True)
    ]
    padding = [max(before, after, 0) for before, after in margins]  # on both sides alike, without a copy of the input
    result = torch.ops.aten.convolution.default(
        x,
        _weight(weight, groups, axes, kinds),
        None,
        [1] * len(axes),
        padding,
        [kind.apart if kind.taps > 1 else 1 for kind in kinds],
        False,
        [0] * len(axes),
        groups,
    )
    for dim, (axis, pad, (before, _)) in enumerate(zip(axes, padding, margins, strict=True), 2):
        result = result.narrow(dim, pad - before, axis.count)
    return result.unflatten(1, [groups, *(len(kind.residues) for kind in kinds), weight.shape[1]])


def _weight(weight: Any, groups: int, axes: Sequence[_Axis], kinds: Sequence[_Kind]) -> Any:
    """Return the filters of residues: (groups * residues * filters, channels of a group, *taps)."""
    import torch
    import torch.nn.functional as F  # noqa: N812

    count = len(axes)
    for number in reversed(range(count)):
        axis, kind = axes[number], kinds[number]
        starts = [axis.start_of(kind, residue) for residue in kind.residues]
        reach = (kind.taps - 1) * axis.step + 1
        dim = 2 + number
        missing = max(starts) + reach - weight.shape[dim]
        if missing > 0:
            weight = F.pad(weight, [0] * 2 * (weight.ndim - 1 - dim) + [0, missing])
        taps = [torch.ops.aten.slice.Tensor(weight, dim, start, start + reach, axis.step) for start in starts]
        weight = torch.stack([one.flip(dim) for one in taps], dim)
    split = weight.unflatten(0, [groups, -1])  # groups, channels, filters, then residues and taps by turns
    residues, taps_of = range(3, 3 + 2 * count, 2), range(4, 4 + 2 * count, 2)
    return split.permute(0, *residues, 2, 1, *taps_of).flatten(0, count + 1)
