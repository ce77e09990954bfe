"""Convolutions of one tap as products: of the filters with the channels of all pixels, as they lie in memory.

Torch's compiler copies the input with its channels side by side first, one more pass over memory: its code for
KernelBench's 1_87 took 13.5 ms on an H100, the library 4.6.
"""

from __future__ import annotations

import math
from typing import Any

from .convolution import Convolution

LEAST_PIXELS = 64
"""Minimum pixels of a sample: fewer do not fill a tile of its product."""
MOST_SAMPLES = 65535
"""Programs in a grid's second dimension, where torch's compiler has the products of a batch."""


def is_pointwise(given: Convolution) -> bool:
    """Return whether it has one tap and one group, is at every pixel, and fits such a product."""
    plain = {*given.taps, *given.stride} == {1} and not any(given.padding)
    fits = math.prod(given.x.shape[2:]) >= LEAST_PIXELS and given.x.shape[0] <= MOST_SAMPLES
    return plain and fits and not given.transposed and given.groups == 1


def pointwise(given: Convolution) -> Any:
    """Return such a convolution as a product; any other one is left as it is."""
    if not is_pointwise(given):
        return NotImplemented
    x, weight = given.x, given.weight
    filters = weight.flatten(1).expand(x.shape[0], -1, -1)
    product = filters.bmm(x.flatten(2)).unflatten(2, x.shape[2:])
    return product if given.bias is None else product + given.bias.reshape(-1, *[1] * len(given.taps))
