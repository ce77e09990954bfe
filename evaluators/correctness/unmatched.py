"""Tells elements that are left out from elements that rounding spoils, where only a share of them must match."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from ...core.problem import Tolerance

PIECE = 16
"""This many adjacent wrong elements are not caused by rounding."""
WHOLE = 0.9
"""A slice with this share of its elements unmatched counts as unmatched: zeros match an expected 0 by chance."""
FAR = 0.5
"""Errors of this part of the expected values, both as root mean squares, are not of rounding."""


def uncomputed(expected: torch.Tensor, actual: torch.Tensor, tolerance: Tolerance) -> str:
    """Return where an output's elements look left out, or '' if what does not match is spread or near.

    Looked at are the slices of each axis, and pieces of neighbours in memory's order, so that rows, columns and tiles
    are found. Takes some three times the output's memory in fp32.
    """
    wanted = expected.detach().to(expected.dtype if expected.element_size() == 8 else _single())
    error = (actual.detach().to(wanted.dtype) - wanted).abs_().nan_to_num_(nan=0.0, posinf=0.0)
    wanted = wanted.abs().nan_to_num_(nan=0.0, posinf=0.0)
    missed = error > tolerance.absolute + tolerance.relative * wanted
    whole = wanted.numel() // PIECE * PIECE
    if (
        whole
        and (at := _far_slice(*(item.reshape(-1)[:whole].view(-1, PIECE) for item in (missed, error, wanted)))) >= 0
    ):
        return _message(f"{PIECE} neighbours from element {at * PIECE} on")
    for axis, extent in enumerate(wanted.shape):
        if wanted.numel() // max(extent, 1) < PIECE:
            continue
        if (at := _far_slice(*(item.movedim(axis, 0).flatten(1) for item in (missed, error, wanted)))) >= 0:
            return _message(f"the elements with index {at} on axis {axis}")
    return ""


def _far_slice(missed: torch.Tensor, error: torch.Tensor, wanted: torch.Tensor) -> int:
    """Return the first row that is unmatched as a whole and far from what is expected, or -1."""
    far = error.norm(dim=1) >= FAR * wanted.norm(dim=1)
    found = ((missed.float().mean(1) >= WHOLE) & far).nonzero()
    return int(found[0, 0]) if len(found) else -1


def _message(where: str) -> str:
    return (
        f"{where} are far from the expected values as a whole: the share of elements that need not match is for "
        "rounding, not for a part of the output that is not computed; compute all of it"
    )


def _single() -> torch.dtype:
    import torch

    return torch.float32
