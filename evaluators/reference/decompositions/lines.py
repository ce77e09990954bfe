"""Convolutions along one axis as those of images of one row: Inductor's templates have two or three axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def lines(
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
    """A decomposition of `aten.convolution`: x is (batch, channels, size), weight (filters, channels of a group, taps).

    Any other convolution is left as it is.
    """
    import torch

    if transposed or weight.ndim != 3:
        return NotImplemented
    image = torch.ops.aten.convolution.default(
        x.unsqueeze(2),
        weight.unsqueeze(2),
        bias,
        [1, *stride],
        [0, *padding],
        [1, *dilation],
        False,
        [0, *output_padding],
        groups,
    )
    return image.squeeze(2)
