"""Products in fp32 with long sums, as sums of products.

A kernel's one accumulator rounds each term to its own spacing, which the sum's size decides: over the 524,288 terms of
KernelBench's 1_6 the error is 4.3e-5 of the result, where the check allows 1.2e-5. Emulated in NumPy (uniform inputs),
parts of 4096 terms have an error of 1.7e-7, like torch, and one sum of 16,384 has 3.4e-7. The parts are also computed
side by side, where a result of few tiles would leave most of a GPU idle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

LONGEST = 16384
"""Terms that one accumulator may sum."""
PART = 4096
"""About as many terms a part has of a longer sum; the parts' products are written and read once more."""


def long_sums(table: Mapping[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """Return decompositions of `mm`, `addmm` and `bmm`; those of a table do the shorter ones."""
    import torch

    aten = torch.ops.aten

    def mm(left: Any, right: Any) -> Any:
        if not _is_long(left):
            return table[aten.mm.default](left, right)
        return _in_parts(left.unsqueeze(0), right.unsqueeze(0)).squeeze(0)

    def bmm(left: Any, right: Any) -> Any:
        return _in_parts(left, right) if _is_long(left) else table[aten.bmm.default](left, right)

    def addmm(bias: Any, left: Any, right: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        if not _is_long(left):
            return table[aten.addmm.default](bias, left, right, beta=beta, alpha=alpha)
        product = torch.mm(left, right)
        return (product if alpha == 1 else alpha * product) + (bias if beta == 1 else beta * bias)

    return {aten.mm.default: mm, aten.bmm.default: bmm, aten.addmm.default: addmm}


def _is_long(left: Any) -> bool:
    import torch

    return left.dtype == torch.float32 and bool(left.shape[-1] > LONGEST)


def _in_parts(left: Any, right: Any) -> Any:
    """Return the product of (batch, rows, terms) and (batch, terms, columns)."""
    import torch

    terms = left.shape[2]
    size = -(-terms // -(-terms // PART))
    count, rest = divmod(terms, size)
    whole = terms - rest
    parts = torch.bmm(
        left.narrow(2, 0, whole).unflatten(2, (count, size)).movedim(2, 1).flatten(0, 1),
        right.narrow(1, 0, whole).unflatten(1, (count, size)).flatten(0, 1),
    )
    total = parts.unflatten(0, (-1, count)).sum(1)
    return total + torch.bmm(left.narrow(2, whole, rest), right.narrow(1, whole, rest)) if rest else total
