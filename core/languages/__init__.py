"""The built-in kernel languages, one file each."""

from .tilelang import TILELANG
from .triton import TRITON

BUILT_IN = (TILELANG, TRITON)
"""In the order in which a source is asked for them: a TileLang kernel may import Triton."""

__all__ = ["BUILT_IN", "TILELANG", "TRITON"]
