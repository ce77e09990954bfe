"""Depthwise convolutions as sums over their taps, which torch's compiler writes as one kernel.

Its template for convolutions computes one channel by matrix products: for KernelBench's 1_84 its configs were still
being measured after four minutes on an H200, where the library takes 10 ms.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

MOST_TAPS = 64
"""Of a filter; each tap becomes a statement."""


def depthwise(
    x: Any,
    weight: Any,
    bias: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    _output_padding: Sequence[int],
    groups: int,
) -> Any:
    """A decomposition of `aten.convolution`: x is (batch, groups, *sizes), weight (channels, 1, *taps).

    Any other convolution is left as it is.
    """
    import torch
    import torch.nn.functional as F  # noqa: N812

    taps = weight.shape[2:]
    if transposed or groups == 1 or weight.shape[1] != 1 or math.prod(taps) > MOST_TAPS:
        return NotImplemented
    sizes = [
        (size + 2 * pad - apart * (tap - 1) - 1) // step + 1
        for size, pad, apart, tap, step in zip(x.shape[2:], padding, dilation, taps, stride, strict=True)
    ]
    padded = F.pad(x, [pad for one in reversed(padding) for pad in (one, one)]) if any(padding) else x
    if weight.shape[0] != groups:  # several filters of a channel are neighbours
        padded = padded.repeat_interleave(weight.shape[0] // groups, 1)
    across = (1, -1, *[1] * len(taps))  # over channels
    total = None if bias is None else bias.reshape(across)
    for tap, factor in zip(itertools.product(*map(range, taps)), weight.flatten(1).unbind(1), strict=True):
        part = padded
        for axis, (place, apart, step, size) in enumerate(zip(tap, dilation, stride, sizes, strict=True), 2):
            begin = place * apart
            part = torch.ops.aten.slice.Tensor(part, axis, begin, begin + (size - 1) * step + 1, step)
        product = part * factor.reshape(across)
        total = product if total is None else total + product
    return total
