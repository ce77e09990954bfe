"""All structures, those that compute the most in one kernel first."""

from __future__ import annotations

from .attention.pattern import STRUCTURE as ATTENTION
from .pointwise.pattern import STRUCTURE as POINTWISE
from .products.pattern import STRUCTURE as PRODUCTS
from .region import Structure
from .rows.pattern import STRUCTURE as ROWS
from .scans.pattern import STRUCTURE as SCANS
from .top_k.pattern import STRUCTURE as TOP_K
from .windows.pattern import STRUCTURE as WINDOWS

STRUCTURES: tuple[Structure, ...] = (ATTENTION, PRODUCTS, TOP_K, SCANS, ROWS, WINDOWS, POINTWISE)
