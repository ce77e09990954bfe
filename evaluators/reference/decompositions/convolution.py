"""The arguments of `aten.convolution`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Convolution:
    """The operator's arguments, in its order.

    x is (batch, channels, *sizes); weight (filters, channels of a group, *taps), or, transposed, (channels, filters of
    a group, *taps).
    """

    x: Any
    weight: Any
    bias: Any
    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    transposed: bool
    output_padding: Sequence[int]
    groups: int

    @property
    def taps(self) -> Sequence[int]:
        """Taps of a filter, by axis."""
        taps: Sequence[int] = self.weight.shape[2:]
        return taps
