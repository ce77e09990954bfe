"""Convolutions of one tap as products: of the filters with the channels of all pixels, as they lie in memory.

Torch's compiler copies the input with its channels side by side first, one more pass over memory: its code for
KernelBench's 1_87 took 13.5 ms on an H100, the library 4.6.
"""

from __future__ import annotations

import math
from typing import Any

from .convolution import Convolution

LEAST_PIXELS = 64
"""Of a sample: fewer do not fill a tile of its product."""
MOST_SAMPLES = 65535
"""Programs in a grid's second dimension, where torch's compiler has the products of a batch."""


def pointwise(given: Convolution) -> Any:
    """Return a convolution of one tap and one group, at every pixel; any other one is left as it is."""
    x, weight = given.x, given.weight
    plain = {*given.taps, *given.stride} == {1} and not any(given.padding)
    fits = math.prod(x.shape[2:]) >= LEAST_PIXELS and x.shape[0] <= MOST_SAMPLES
    if given.transposed or given.groups != 1 or not plain or not fits:
        return NotImplemented
    filters = weight.flatten(1).expand(x.shape[0], -1, -1)
    product = filters.bmm(x.flatten(2)).unflatten(2, x.shape[2:])
    return product if given.bias is None else product + given.bias.reshape(-1, *[1] * len(given.taps))
