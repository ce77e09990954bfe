"""Rewrites of kernels on their syntax tree, each with the preconditions under which it is right."""

from .compiler_flags import RelaxedMath, WideVectors
from .fuse import Fuse
from .hoist import Hoist
from .jam import Jam
from .lanes import Lanes
from .launch import Launch
from .loop_order import LoopOrder
from .register_tile import RegisterTile
from .rule import Machine, Rewritten, Rule
from .split_grid import SplitGrid
from .swizzle import Swizzle

RULES: tuple[Rule, ...] = (
    SplitGrid(),
    LoopOrder(),
    Fuse(),
    Hoist(),
    Lanes(),
    RelaxedMath(),
    RegisterTile(),
    Jam(),
    WideVectors(),
    Launch(),
    Swizzle(),
)
"""In the order in which rules of the same category are tried."""

__all__ = ["RULES", "Machine", "Rewritten", "Rule"]
