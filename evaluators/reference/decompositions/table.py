"""The decompositions that a reference is traced with: Inductor's own, and those of this package before them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .convolution import Convolution
from .depthwise import depthwise
from .dilated import dilated
from .long_sums import long_sums
from .one_dimensional import one_dimensional
from .transposed import transposed

_CONVOLUTIONS = (transposed, depthwise, dilated, one_dimensional)
"""Each leaves what it is not for; what it makes of a convolution comes here again."""


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Return the table for `make_fx`, by operator."""
    from torch._inductor.decomposition import select_decomp_table

    table = select_decomp_table()
    return {**table, **_first_that_fits(), **long_sums(table)}


def _first_that_fits() -> dict[Any, Callable[..., Any]]:
    import torch

    def convolution(*args: Any) -> Any:
        results = (rewrite(Convolution(*args)) for rewrite in _CONVOLUTIONS)
        return next((one for one in results if one is not NotImplemented), NotImplemented)

    return {torch.ops.aten.convolution.default: convolution}
