"""Rewrites of kernels on their syntax tree, each with the preconditions under which it is right."""

from .fuse import Fuse
from .hoist import Hoist
from .jam import Jam
from .lanes import Lanes
from .launch import Launch
from .loop_order import LoopOrder
from .register_tile import RegisterTile
from .relaxed_math import RelaxedMath
from .rule import Machine, Rewritten, Rule
from .split_grid import SplitGrid
from .swizzle import Swizzle

RULES: tuple[Rule, ...] = (
    SplitGrid(),
    LoopOrder(),
    Fuse(),
    Hoist(),
    Lanes(),
    RegisterTile(),
    Jam(),
    RelaxedMath(),
    Launch(),
    Swizzle(),
)
"""In the order in which rules of the same category are tried."""

__all__ = ["RULES", "Machine", "Rewritten", "Rule"]
