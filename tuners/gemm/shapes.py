"""Shapes of matrix products."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ...core import OptionError
from .fields import is_whole

ROWS, COLUMNS = "T", "N"
"""The letters of a row-major and of a column-major operand, as BLAS and tune_gemm use them."""
LAYOUTS = tuple(a + b for a in (ROWS, COLUMNS) for b in (ROWS, COLUMNS))
EXTENTS = ("M", "N", "K")
ROUTING = ("E", "TOP_K")
"""Further sizes of a mixture of experts."""


@dataclass(frozen=True, order=True)
class Shape:
    """C (m x n) = A (m x k) B (k x n), and how A and B lie in memory: 'TN' is A row-major, B column-major.

    With experts: m tokens of k numbers, and the weights (2 n x k) and (k x n) of each expert.
    """

    n: int
    k: int
    m: int
    layout: str = "TN"
    experts: int = 0
    """0 for a single product."""
    top_k: int = 0
    """Experts of each token."""

    @property
    def flops(self) -> int:
        """Floating-point operations of the product, or of all experts' products."""
        return 2 * self.m * self.n * self.k * (3 * self.top_k if self.experts else 1)

    @property
    def sizes(self) -> dict[str, int]:
        """The extents by the names that files and problems have for them."""
        found = {"M": self.m, "N": self.n, "K": self.k}
        return {**found, "E": self.experts, "TOP_K": self.top_k} if self.experts else found

    def related(self, other: Shape) -> bool:
        """Return whether both lie alike in memory and have the same experts."""
        return (self.layout, self.experts, self.top_k) == (other.layout, other.experts, other.top_k)

    def distance(self, other: Shape) -> float:
        """Return how far another's best config may be: rows and columns make the tiles, the depth only repeats."""
        near = (abs(math.log2(mine / theirs)) for mine, theirs in ((self.m, other.m), (self.n, other.n)))
        return sum(near) + abs(math.log2(self.k / other.k)) / 2

    @property
    def slug(self) -> str:
        """A name for files."""
        experts = f"_e{self.experts}_top{self.top_k}" if self.experts else ""
        return f"m{self.m}_n{self.n}_k{self.k}{experts}_{self.layout.lower()}"

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.sizes.items())


def parse_shape(m: Any, n: Any, k: Any, layout: str = "TN", experts: Any = 0, top_k: Any = 0) -> Shape:
    """Return a shape; raises `OptionError` for an extent that is not a positive integer, or an unknown layout."""
    extents = dict(zip(EXTENTS, (m, n, k), strict=True))
    routing = dict(zip(ROUTING, (experts, top_k), strict=True)) if experts != 0 or top_k != 0 else {}
    for name, value in {**extents, **routing}.items():
        if not is_whole(value) or value < 1:
            raise OptionError(f"{name}={value!r} is not a size", "give a whole number from 1")
    if top_k > experts:
        raise OptionError(f"TOP_K={top_k} experts of E={experts}", "a token takes each expert at most once")
    if layout not in LAYOUTS:
        raise OptionError(f"layout {layout!r} is not known", f"use one of {', '.join(LAYOUTS)} (T is row-major)")
    return Shape(n=n, k=k, m=m, layout=layout, experts=experts, top_k=top_k)
