"""Dilated convolutions as ordinary ones, for which Inductor has a template.

An output of which the next one with the same input pixels is R further on shares its filter with all of its residue
modulo R: the residues' pixels become samples of one batch ("space to batch"). That is one more pass over the input, and
one over the output, in which what follows is computed too.
"""

from __future__ import annotations

import math
from typing import Any

from .convolution import Convolution
from .interleaving import interleaved


def dilated(given: Convolution) -> Any:
    """Return a dilated convolution, not transposed; any other one is left as it is."""
    import torch
    import torch.nn.functional as F  # noqa: N812

    if given.transposed or all(item == 1 for item in given.dilation):
        return NotImplemented
    x, taps, stride, padding = given.x, given.taps, given.stride, given.padding
    apart = [dilation if tap > 1 else 1 for dilation, tap in zip(given.dilation, taps, strict=True)]
    shape = zip(x.shape[2:], stride, padding, apart, taps, strict=True)
    sizes = [(size + 2 * pad - far * (tap - 1) - 1) // step + 1 for size, step, pad, far, tap in shape]
    common = list(map(math.gcd, stride, apart))
    residues = [far // divisor for far, divisor in zip(apart, common, strict=True)]
    steps = [step // divisor for step, divisor in zip(stride, common, strict=True)]
    counts = [-(-size // many) for size, many in zip(sizes, residues, strict=True)]
    lengths = [(count - 1) * step + tap for count, step, tap in zip(counts, steps, taps, strict=True)]
    ends = [
        (many - 1) * step + (length - 1) * far + 1
        for many, step, length, far in zip(residues, stride, lengths, apart, strict=True)
    ]
    margins = [(pad, end - size - pad) for pad, end, size in zip(padding, ends, x.shape[2:], strict=True)]
    pixels = F.pad(x, [item for margin in reversed(margins) for item in margin])
    for axis, (many, step, length, far) in enumerate(zip(residues, stride, lengths, apart, strict=True)):
        dim = axis - len(taps)
        starts = [number * step for number in range(many)]
        parts = [torch.ops.aten.slice.Tensor(pixels, dim, at, at + (length - 1) * far + 1, far) for at in starts]
        pixels = torch.stack(parts, axis)
    batch = pixels.flatten(0, len(taps))
    none = [0] * len(taps)
    result = torch.ops.aten.convolution.default(
        batch, given.weight, None, steps, none, [1] * len(taps), False, none, given.groups
    )
    result = result.unflatten(0, [*residues, x.shape[0]]).movedim(len(taps), 0)
    return interleaved(result.movedim(len(taps) + 1, 1), none, sizes, given.bias)
