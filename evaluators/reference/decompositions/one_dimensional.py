"""Convolutions along one axis as those of images of one row: Inductor's templates have two or three axes."""

from __future__ import annotations

from typing import Any

from .convolution import Convolution


def one_dimensional(given: Convolution) -> Any:
    """Return a convolution along one axis, not transposed; any other one is left as it is."""
    import torch

    if given.transposed or len(given.taps) != 1:
        return NotImplemented
    image = torch.ops.aten.convolution.default(
        given.x.unsqueeze(2),
        given.weight.unsqueeze(2),
        given.bias,
        [1, *given.stride],
        [0, *given.padding],
        [1, *given.dilation],
        False,
        [0, *given.output_padding],
        given.groups,
    )
    return image.squeeze(2)
