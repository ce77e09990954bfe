"""The decompositions that a reference is traced with: Inductor's own, and those of this package before them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...settings import Lowering
from .convolution import Convolution
from .depthwise import depthwise
from .dilated import dilated
from .long_sums import long_sums
from .one_dimensional import one_dimensional
from .pointwise import is_pointwise, pointwise
from .transposed import transposed

_CONVOLUTIONS = (transposed, depthwise, pointwise, dilated, one_dimensional)
"""Each returns convolutions that it does not handle unchanged; its results are decomposed again."""
_BESIDE_THE_LIBRARY = (depthwise,)
"""Those that are kernels of their own. The others only make convolutions that templates can compute. Around them are
passes over input and output, and in TF32 the library rounds such parts in another way than the whole: in eight of them
KernelBench's 1_72 was wrong."""


def decompositions(lowering: Lowering = Lowering.TEMPLATES) -> dict[Any, Callable[..., Any]]:
    """Return the table for `make_fx`, by operator: where torch's library may compute convolutions, it gets them as they
    are, and code as torch.compile has it has nothing of this package."""
    from torch._inductor.decomposition import select_decomp_table

    table = select_decomp_table()
    if lowering is Lowering.AS_COMPILED:
        return dict(table)
    own = _CONVOLUTIONS if lowering is Lowering.TEMPLATES else _BESIDE_THE_LIBRARY
    return {**table, **_first_that_fits(own), **long_sums(table)}


def only_pointwise(graph: Any) -> bool:
    """Return whether a graph has convolutions, each of which `pointwise` makes a product.

    Where the library computes others, the layout of those decides; alone they are no work for it: torch's compiler
    makes products of them too, after a copy of the input.
    """
    import torch
    from torch.fx.node import map_arg

    nodes = graph.graph.find_nodes(op="call_function", target=torch.ops.aten.convolution.default)
    given = [Convolution(*map_arg(node.args, lambda argument: argument.meta["val"])) for node in nodes]
    return bool(given) and all(map(is_pointwise, given))


def _first_that_fits(rewrites: Sequence[Callable[[Convolution], Any]]) -> dict[Any, Callable[..., Any]]:
    import torch

    def convolution(*args: Any) -> Any:
        results = (rewrite(Convolution(*args)) for rewrite in rewrites)
        return next((result for result in results if result is not NotImplemented), NotImplemented)

    return {torch.ops.aten.convolution.default: convolution}
