"""Depthwise convolutions as sums over their taps, which torch's compiler writes as one kernel.

Its template for convolutions computes one channel by matrix products: for KernelBench's 1_84 its configs were still
being measured after four minutes on an H200, where the library takes 10 ms.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

from .convolution import Convolution

MOST_TAPS = 64
"""Maximum taps of a filter; each becomes a statement."""


def depthwise(given: Convolution) -> Any:
    """Return a depthwise convolution, weight (channels, 1, *taps); any other one is left as it is."""
    import torch
    import torch.nn.functional as F  # noqa: N812

    x, weight, taps, groups = given.x, given.weight, given.taps, given.groups
    if given.transposed or groups == 1 or weight.shape[1] != 1 or math.prod(taps) > MOST_TAPS:
        return NotImplemented
    sizes = [
        (size + 2 * pad - apart * (tap - 1) - 1) // step + 1
        for size, pad, apart, tap, step in zip(
            x.shape[2:], given.padding, given.dilation, taps, given.stride, strict=True
        )
    ]
    margins = [pad for item in reversed(given.padding) for pad in (item, item)]
    padded = F.pad(x, margins) if any(margins) else x
    if weight.shape[0] != groups:  # several filters of a channel are neighbours
        padded = padded.repeat_interleave(weight.shape[0] // groups, 1)
    across = (1, -1, *[1] * len(taps))  # over channels
    total = None if given.bias is None else given.bias.reshape(across)
    for tap, factor in zip(itertools.product(*map(range, taps)), weight.flatten(1).unbind(1), strict=True):
        part = padded
        for axis, (place, apart, step, size) in enumerate(
            zip(tap, given.dilation, given.stride, sizes, strict=True), 2
        ):
            begin = place * apart
            part = torch.ops.aten.slice.Tensor(part, axis, begin, begin + (size - 1) * step + 1, step)
        product = part * factor.reshape(across)
        total = product if total is None else total + product
    return total
